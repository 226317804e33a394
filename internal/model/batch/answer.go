package batch

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// Answer is what came of one request.
type Answer struct {
	ID      string
	Status  int             // of the request itself; 0: the server did not get to it
	Body    json.RawMessage // as an online call has it
	Code    string          // why it was not answered, as the server names it
	Message string
}

// Expired is the code of a request that the server did not get to in time. It is not charged.
const Expired = "batch_expired"

// IsAnswered reports whether the request was answered, and so is paid for.
func (a Answer) IsAnswered() bool { return a.Status == http.StatusOK }

// CanRetry reports whether the request may be answered when it is asked again: nothing about it was refused.
func (a Answer) CanRetry() bool {
	return a.Status == 0 || a.Status == http.StatusTooManyRequests || a.Status == http.StatusRequestTimeout ||
		a.Status == http.StatusConflict || a.Status >= 500
}

// Outcome is what the files of a batch say, whatever their order.
type Outcome struct {
	Answers map[string]Answer // by ID; those that nothing is said of are missing
	Foreign int               // lines about what was not asked for
	Broken  int               // lines that cannot be read
}

// Read reads the files of a batch about the requests that were sent; a file that a server did not make is nil. Of
// several lines about a request one that answers it counts, and else the first.
func Read(sent map[string]bool, files ...[]byte) Outcome {
	out := Outcome{Answers: map[string]Answer{}}
	for _, file := range files {
		for line := range bytes.Lines(file) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			answer, ok := readLine(line)
			if !ok {
				out.Broken++
				continue
			}
			if !sent[answer.ID] {
				out.Foreign++
				continue
			}
			if before, got := out.Answers[answer.ID]; !got || answer.IsAnswered() && !before.IsAnswered() {
				out.Answers[answer.ID] = answer
			}
		}
	}
	return out
}

func readLine(line []byte) (Answer, bool) {
	var got struct {
		ID       string `json:"custom_id"`
		Response *struct {
			Status int             `json:"status_code"`
			Body   json.RawMessage `json:"body"`
		} `json:"response"`
		Error *reason `json:"error"`
	}
	if json.Unmarshal(line, &got) != nil || got.ID == "" {
		return Answer{}, false
	}
	answer := Answer{ID: got.ID}
	if got.Response != nil {
		answer.Status, answer.Body = got.Response.Status, got.Response.Body
		var body struct {
			Error *reason `json:"error"`
		}
		if !answer.IsAnswered() && json.Unmarshal(answer.Body, &body) == nil && body.Error != nil {
			answer.Code, answer.Message = string(body.Error.Code), body.Error.Message
		}
	}
	if got.Error != nil {
		answer.Code, answer.Message = string(got.Error.Code), got.Error.Message
	}
	return answer, got.Response != nil || got.Error != nil
}

type reason struct {
	Code    code   `json:"code"`
	Message string `json:"message"`
}

// code is a word, or a number of some servers.
type code string

// UnmarshalJSON takes either, and nothing where it is neither.
func (c *code) UnmarshalJSON(raw []byte) error {
	*c = code(bytes.Trim(raw, `"`))
	if *c == "null" {
		*c = ""
	}
	return nil
}
