package api_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/api"
)

// ponder is a method whose work is heavy and goes on until its context ends.
type ponder struct {
	began chan struct{}
	ended chan error
}

func (ponder) Spec() retrieve.Spec {
	return retrieve.Spec{Name: "ponder", Doc: "it goes on", Entities: 1}
}

func (p ponder) Run(r *retrieve.Request) (retrieve.Explanation, error) {
	if err := r.Admit(1e12); err != nil {
		return nil, err
	}
	p.began <- struct{}{}
	<-r.Context().Done()
	p.ended <- r.Context().Err()
	return nil, r.Context().Err()
}

// doors are the ways to ask a question by the method.
var doors = map[string]struct{ path, body string }{
	"a query":  {"/v1/indexes/sample/query", `{"query":"Oslo?","method":"ponder"}`},
	"a stream": {"/v1/indexes/sample/query", `{"query":"Oslo?","method":"ponder","answer":true,"stream":true}`},
	"MCP": {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":` +
		`{"index":"sample","query":"Oslo?","method":"ponder"}}}`},
	"chat": {"/v1/chat/completions", `{"model":"unweaver/sample","messages":[{"role":"user","content":"Oslo?"}],` +
		`"unweaver":{"method":"ponder"}}`},
	"chat as a stream": {"/v1/chat/completions", `{"model":"unweaver/sample","stream":true,` +
		`"messages":[{"role":"user","content":"Oslo?"}],"unweaver":{"method":"ponder"}}`},
}

func TestHeavyWorkIsBoundedAndEndsWithItsCaller(t *testing.T) {
	method := ponder{make(chan struct{}), make(chan error, 64)}
	registry, err := retrieve.NewRegistry(append(methods.Registry().All(), method)...)
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(_ *fixture, config *api.Config) { config.Methods = registry })
	f.unchecked = true // it is described with the methods of the program
	address := "http://" + f.listening()
	ask := func(ctx context.Context, path, body string) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil, err
		}
		request.Host = "localhost"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		return http.DefaultClient.Do(request)
	}
	for name, door := range doors {
		var leave []context.CancelFunc
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			ctx, cancel := context.WithCancel(t.Context())
			leave = append(leave, cancel)
			go func() {
				if response, err := ask(ctx, door.path, door.body); err == nil {
					_ = response.Body.Close()
				}
			}()
			<-method.began
		}
		for other, door := range doors {
			response, err := ask(t.Context(), door.path, door.body)
			if err != nil {
				t.Fatal(err)
			}
			var reported bytes.Buffer
			_, _ = bufio.NewReader(response.Body).WriteTo(&reported)
			_ = response.Body.Close()
			waits := response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") != ""
			if !waits && !strings.Contains(reported.String(), "try again in") || !strings.Contains(reported.String(), "expensive") {
				t.Errorf("%s beside heavy work by %s: %d %v %s", other, name, response.StatusCode, response.Header, &reported)
			}
		}
		if out := f.ask(map[string]any{"query": "What is the capital of Norway?"}); out["reason"] != nil {
			t.Errorf("an ordinary question beside heavy work by %s: %v", name, out)
		}
		for _, cancel := range leave {
			cancel()
			if err := <-method.ended; !errors.Is(err, context.Canceled) {
				t.Error(fmt.Errorf("%s left: %w", name, err))
			}
		}
	}
}
