package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Seen is a request as a script sees it.
type Seen struct {
	N      int64  // requests are numbered from 1 as they arrive
	Task   string // name of the schema (extract, shorten), answer without one, embed
	System string // the first message, where that is the system's
	Text   string // the last message of the user, or the first text
}

// Injection is what a script sets for one request; the zero value is a good answer at once.
type Injection struct {
	Latency    time.Duration // before the answer
	Status     int           // not 0 and not 200: refuse with it
	RetryAfter time.Duration
	Hang       bool   // never answer
	Cut        bool   // break the connection before the answer: nothing is paid
	Content    string // chat: the model's text, in place of a good one
	Body       string // a 200 with this as its whole body
	HalfBody   bool   // a 200 whose body breaks off
	StallBody  bool   // a 200 whose body stops coming
}

// answered reports whether the request gets a 200.
func (i Injection) answered() bool {
	return !i.Hang && !i.Cut && (i.Status == 0 || i.Status == http.StatusOK)
}

// inject decides by the script, or by the latencies of the options.
func (o Options) inject(seen Seen) Injection {
	if o.Script != nil {
		return o.Script(seen)
	}
	if seen.Task == "embed" {
		return Injection{Latency: o.EmbedLatency}
	}
	return Injection{Latency: o.Latency}
}

// spoil gives the content of a chat answer as the options want it spoilt, and whether it is of no use.
func (o Options) spoil(user, content string) (string, bool) {
	if o.Poison != "" && strings.Contains(user, o.Poison) {
		return "I am sorry, there is nothing that I could list.", true
	}
	return content, false
}

// refuse answers with the contract's error object.
func refuse(w http.ResponseWriter, status int, code, message string, after time.Duration) {
	if after > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(max(1, int(after.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).
		Encode(map[string]any{"error": map[string]string{"message": message, "type": "error", "code": code}})
}

// respond sends a 200 with the body that the injection sets.
func respond(w http.ResponseWriter, request *http.Request, injection Injection, answer any) {
	body, _ := json.Marshal(answer) // plain values always marshal
	w.Header().Set("Content-Type", "application/json")
	if injection.Body != "" {
		w.Header().Del("Content-Type") // net/http looks at the body
		body = []byte(injection.Body)
	}
	if injection.HalfBody || injection.StallBody {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body) // the caller may have gone
	if injection.HalfBody || injection.StallBody {
		_ = http.NewResponseController(w).Flush()
	}
	if injection.StallBody {
		<-request.Context().Done()
	}
	if injection.HalfBody {
		panic(http.ErrAbortHandler)
	}
}
