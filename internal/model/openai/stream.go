package openai

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/model"
)

// Bounds of a streamed answer.
const (
	bytesPerEvent = 1 << 10 // of a token as an event of its own
	longestEvent  = 1 << 20
)

// unstreamed are the endpoints that were found to refuse streaming, over the process, by address and model.
var unstreamed sync.Map

// exchangeCompletion sends one request and reads its answer: piece by piece where model.Deltas asks for it and the
// server can. One that ignores the wish answers with the whole, which is one piece; one that refuses it is asked again
// without, which is asked to model.Again.
func (c *Client) exchangeCompletion(
	ctx context.Context,
	sent *request,
	params chatParams,
	answer *completion,
) error {
	whole := func(body []byte) error { return json.Unmarshal(body, answer) }
	take := model.FindTaker(ctx)
	if take == nil {
		return sent.sendRequest(ctx, params, whole)
	}
	refuses := false
	if _, known := unstreamed.Load(c.formKey()); !known {
		streaming := params
		streaming.Stream, streaming.StreamOptions = true, &streamOptions{IncludeUsage: true}
		stream := *sent
		stream.longest = max(sent.longest, bodyBase+bytesPerEvent*(sent.longest-bodyBase)/bytesPerToken)
		reader := newDeltas(answer, take, sent.longest)
		reader.said.Open = c.opensThoughts()
		stream.events = reader.readStream
		err := stream.sendRequest(ctx, streaming, whole)
		switch reader.finishAnswer(); {
		case errors.Is(reader.refused, model.ErrLateThought):
			c.learnThoughts(false)
			err = stream.markError(fault.ModelUnavailable.At(stream.op, stream.objectName()).Because(reader.refused).
				Advise("try again: from now on, answers are shown only when they are complete"))
		case reader.refused != nil: // the taker of the text refuses more
			err = stream.markError(reader.refused)
		case reader.failed != nil:
			err = stream.inStream(ctx, *reader.failed)
		}
		if refuses = stream.refusesStreams(); !refuses {
			*sent = stream
			if err == nil && !reader.began {
				err = emitWhole(take, answer)
			}
			return err
		}
		if held := model.CheckAgain(ctx); held != nil { // paused meanwhile: nothing more is sent
			*sent = stream
			return held
		}
	}
	if err := sent.sendRequest(ctx, params, whole); err != nil {
		return err
	}
	if refuses {
		unstreamed.Store(c.formKey(), true)
	}
	return emitWhole(take, answer)
}

// emitWhole gives an answer that came at once.
func emitWhole(take func(string) error, answer *completion) error {
	if len(answer.Choices) == 0 {
		return nil
	}
	text, _ := model.TakeAnswer(redact.HideKnown(string(answer.Choices[0].Message.Content)))
	if text == "" {
		return nil
	}
	return take(text)
}

// refusesStreams reports whether the server refused the wish for a stream, and not the request.
func (r *request) refusesStreams() bool {
	if r.refused == nil {
		return false
	}
	switch r.refused.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return streamWord.MatchString(r.refused.kind + " " + strings.ToLower(r.refused.text))
	}
	return false
}

var streamWord = regexp.MustCompile(`\bstream(ing|_options)?\b`)

// inStream returns the fault of an error that came as an event, behind a status that said that all is well.
func (r *request) inStream(ctx context.Context, said json.RawMessage) error {
	if ctx.Err() != nil {
		return r.markError(ctx.Err())
	}
	body, _ := json.Marshal(map[string]json.RawMessage{"error": said}) // it was read as JSON
	refused := readRefusal(&http.Response{
		StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)),
	})
	for _, word := range strings.Fields(refused.kind) {
		if strings.HasPrefix(word, "rate_limit") {
			refused.status = http.StatusTooManyRequests
		}
		if status, err := strconv.Atoi(word); err == nil && status >= 400 && status < 600 {
			refused.status = status
		}
	}
	return r.markError(r.newStatusFault(*refused))
}

// isEvents reports whether a body is a stream of events.
func isEvents(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// deltas reads a streamed answer.
type deltas struct {
	answer  *completion
	said    model.Saying
	out     holding
	longest int64 // bytes of the answer's text
	began   bool
	failed  *json.RawMessage // an error that came as an event
	refused error            // of who takes the text

	thoughts strings.Builder // what came beside the answer
}

func newDeltas(answer *completion, take func(string) error, longest int64) *deltas {
	out := &deltas{answer: answer, out: holding{take: take}, longest: longest}
	out.said.Give = out.out.addText
	return out
}

// finishAnswer puts the text that came into the answer.
func (d *deltas) finishAnswer() {
	if len(d.answer.Choices) > 0 && d.began {
		d.answer.Choices[0].Message.Content = content(d.said.Text())
		d.answer.Choices[0].Message.Thoughts = content(d.thoughts.String())
	}
}

// piece of an answer.
type piece struct {
	Index        int    `json:"index"`
	FinishReason string `json:"finish_reason"`
	Delta        struct {
		Content  content `json:"content"`
		Refusal  string  `json:"refusal"`
		Thoughts content `json:"reasoning_content"`
	} `json:"delta"`
}

// event of a streamed answer.
type event struct {
	Choices first[piece]    `json:"choices"`
	Model   modelName       `json:"model"`
	Usage   *charged        `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// errEnded is the end that a stream says itself.
var errEnded = errors.New("the stream has ended")

// readStream takes in a stream to its end. What came stands in the answer, also where it fails.
func (d *deltas) readStream(response *http.Response) error {
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 4<<10), longestEvent)
	d.began = true
	var data []byte
	var err error
	for err == nil && lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(data)+len(rest) > longestEvent {
				return bufio.ErrTooLong
			}
			data = append(append(data, bytes.TrimPrefix(rest, []byte(" "))...), '\n')
			continue
		}
		if len(line) == 0 {
			err = d.takeEvent(data)
			data = data[:0]
		}
	}
	if err == nil {
		err = lines.Err()
	}
	if err == nil && len(bytes.TrimSpace(data)) > 0 { // the last line of some servers is not followed by an empty one
		err = d.takeEvent(data)
	}
	switch {
	case errors.Is(err, errEnded):
	case err != nil:
		return err
	case len(d.answer.Choices) == 0 || d.answer.Choices[0].FinishReason == "":
		return errors.New("the stream ended before the answer did")
	}
	if _, _, d.refused = d.said.End(); d.refused == nil {
		d.refused = d.out.flushHeld()
	}
	return d.refused
}

// takeEvent takes in one event.
func (d *deltas) takeEvent(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if string(data) == "[DONE]" {
		return errEnded
	}
	var next event
	if err := json.Unmarshal(data, &next); err != nil {
		return fmt.Errorf("an event of the stream is no valid JSON: %w", err)
	}
	if len(next.Error) > 0 && string(next.Error) != "null" {
		d.failed = &next.Error
		return errors.New("the server sent an error in the stream")
	}
	d.answer.Model = cmp.Or(next.Model, d.answer.Model)
	if next.Usage != nil {
		d.answer.Usage = *next.Usage
	}
	for _, choice := range next.Choices {
		if choice.Index != 0 {
			continue
		}
		if len(d.answer.Choices) == 0 {
			d.answer.Choices = slices.Grow(d.answer.Choices, 1)[:1]
		}
		whole := &d.answer.Choices[0]
		if choice.Delta.Thoughts != "" {
			d.said.Open = true // the server parts thoughts from answers
			d.thoughts.WriteString(string(choice.Delta.Thoughts))
		}
		whole.Message.Refusal = cmp.Or(choice.Delta.Refusal, whole.Message.Refusal) // whether there is one counts
		if choice.FinishReason != "" {
			whole.FinishReason = choice.FinishReason
		}
		if d.refused = d.said.Add(string(choice.Delta.Content)); d.refused != nil {
			return d.refused
		}
		if int64(len(d.said.Text())) > d.longest {
			return tooLong(d.longest)
		}
	}
	return nil
}

// holding passes text on, but for what a secret may begin with.
type holding struct {
	take func(string) error
	held string
}

func (h *holding) addText(text string) error {
	if text == "" {
		return nil
	}
	text = redact.HideKnown(h.held + text)
	ready := len(text) - redact.MeasureTail(text)
	h.held = text[ready:]
	if ready == 0 {
		return nil
	}
	return h.take(text[:ready])
}

func (h *holding) flushHeld() error {
	if h.held == "" {
		return nil
	}
	text := h.held
	h.held = ""
	return h.take(text)
}
