// Package batch has requests answered by a server's Batch API: files of requests, one JSON object a line, that are
// answered within a day for less money. A part is the requests of one file.
//
// Nothing is paid twice. A part is cut by content, so that a later run cuts the same; the intent to send it is
// recorded before anything is sent; what the server made of it is found again by a name in its metadata, as creation
// knows no idempotency key; and answers are taken before a part counts as done. See Runner.
package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Limits of one file, as OpenAI has them.
const (
	MostRequests = 50_000
	MostBytes    = 200_000_000
)

// Request is one call of a part. ID is its key in the ledger: it names the answer, which comes in any order.
type Request struct {
	ID     string
	Body   json.RawMessage // as it is posted to the endpoint online
	Tokens int64           // of the prompt, estimated
}

// Part is what one file holds, by ID. Key is made of its IDs alone.
type Part struct {
	Key      string
	Requests []Request
}

// Limits of a part; 0 = the most that a file may have. Tokens 0 = any number.
type Limits struct {
	Requests int
	Bytes    int64
	Tokens   int64
}

// Cut cuts sealed input into parts: equal requests, in whatever order and however often, give equal parts. It needs all
// requests of the input, also those that are answered: parts that were cut of the rest would not be found again.
func Cut(requests []Request, limits Limits) ([]Part, error) {
	if limits.Requests <= 0 || limits.Requests > MostRequests {
		limits.Requests = MostRequests
	}
	if limits.Bytes <= 0 || limits.Bytes > MostBytes {
		limits.Bytes = MostBytes
	}
	sorted := slices.Clone(requests)
	slices.SortFunc(sorted, func(a, b Request) int { return strings.Compare(a.ID, b.ID) })
	sorted = slices.CompactFunc(sorted, func(a, b Request) bool { return a.ID == b.ID })
	var parts []Part
	var bytesOf, tokens int64
	first := 0
	end := func(to int) {
		if to > first {
			parts = append(parts, newPart(sorted[first:to]))
		}
		first, bytesOf, tokens = to, 0, 0
	}
	for i, request := range sorted {
		line, err := request.encodeLine()
		if err != nil {
			return nil, err
		}
		size := int64(len(line))
		if size > limits.Bytes {
			return nil, fault.TooLarge.At("cut into files of a batch", "request "+request.ID).
				Because(fmt.Sprintf("it has %d bytes, and a file can have at most %d", size, limits.Bytes))
		}
		full := i-first == limits.Requests || bytesOf+size > limits.Bytes
		if full || limits.Tokens > 0 && tokens+request.Tokens > limits.Tokens {
			end(i)
		}
		bytesOf, tokens = bytesOf+size, tokens+request.Tokens
	}
	end(len(sorted))
	return parts, nil
}

func newPart(requests []Request) Part {
	ids := make([]string, 0, len(requests)+1)
	ids = append(ids, "batch part/1")
	for _, request := range requests {
		ids = append(ids, request.ID)
	}
	return Part{Key: core.Sum(ids...).String(), Requests: requests}
}

// Endpoint is the path that requests of a batch are for.
const Endpoint = "/v1/chat/completions"

func (r Request) encodeLine() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		ID     string          `json:"custom_id"`
		Method string          `json:"method"`
		URL    string          `json:"url"`
		Body   json.RawMessage `json:"body"`
	}{r.ID, "POST", Endpoint, r.Body})
	if err != nil {
		return nil, fault.Internal.At("write a line of a batch", "request "+r.ID).Because(err)
	}
	return out.Bytes(), nil
}

// Encode gives the file of some requests.
func Encode(requests []Request) ([]byte, error) {
	var out bytes.Buffer
	for _, request := range requests {
		line, err := request.encodeLine()
		if err != nil {
			return nil, err
		}
		out.Write(line)
	}
	return out.Bytes(), nil
}
