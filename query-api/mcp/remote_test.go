package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/mcp"
	"github.com/unweaver/unweaver/query-api/problem"
)

func TestWhatAnotherServerSaysAgainstAQuestionIsTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/v1/indexes":
			_, _ = w.Write([]byte(`{"items":[{"index":"docs","chunks":7}],"next_cursor":""}`))
		case "/v1/indexes/busy/query":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"code":"rate_limited","detail":"too much","hint":"wait","param":"q","status":1}`))
		default:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>"))
		}
	}))
	defer server.Close()
	remote := mcp.Remote{Client: server.Client(), Base: server.URL}
	if all, err := remote.ListIndexes(t.Context()); err != nil || len(all) != 1 || all[0].Index != "docs" || all[0].Chunks != 7 {
		t.Errorf("%v %v", all, err)
	}
	_, err := remote.Ask(t.Context(), "busy", []byte("{}"))
	want := problem.Problem{
		Status: 429, Code: "rate_limited", Detail: "too much", Hint: "wait", Param: "q", RetryAfter: 7 * time.Second,
	}
	if got := problem.As(err); got == nil || *got != want || err.Error() != "too much" {
		t.Errorf("%+v", got)
	}
	_, err = remote.Ask(t.Context(), "odd", []byte("{}"))
	if got := problem.As(err); got == nil || got.Status != 502 || got.Code != "internal" || got.Detail != "Bad Gateway" {
		t.Errorf("%+v", got)
	}
}

func TestAServerThatIsNotReachedIsAnOutageButNotForWhoLeft(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	remote := mcp.Remote{Client: server.Client(), Base: server.URL}
	server.Close()
	ctx, leave := context.WithCancel(t.Context())
	if _, err := remote.ListIndexes(ctx); !fault.Is(err, fault.StoreDown) || problem.As(err) != nil {
		t.Error(err)
	}
	leave()
	if _, err := remote.ListIndexes(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
