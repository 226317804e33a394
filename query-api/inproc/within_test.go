package inproc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/inproc"
)

// ways are those in which the same routes can be asked.
func ways(t *testing.T, handler http.HandlerFunc) map[string]func(path string) ([]byte, error) {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	asking := func(to inproc.Doer, base string) func(string) ([]byte, error) {
		return func(path string) ([]byte, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			return inproc.Ask(to, request)
		}
	}
	return map[string]func(path string) ([]byte, error){
		"of this process": asking(inproc.Routes{Handler: handler}, ""),
		"over HTTP":       asking(server.Client(), server.URL),
	}
}

func TestRoutesAnswerWithinAsTheyDoOverHTTP(t *testing.T) {
	for name, ask := range ways(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/ok":
			_, _ = w.Write([]byte("yes"))
			w.WriteHeader(http.StatusTeapot) // too late
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"code":"rate_limited","detail":"too much","hint":"wait","param":"q","status":1}`))
		default:
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>"))
		}
	}) {
		if body, err := ask("/ok"); err != nil || string(body) != "yes" {
			t.Errorf("%s: %q %v", name, body, err)
		}
		_, err := ask("/busy")
		want := inproc.Problem{
			Status: 429, Code: "rate_limited", Detail: "too much", Hint: "wait", Param: "q", RetryAfter: 7 * time.Second,
		}
		if got := inproc.AsProblem(err); got == nil || *got != want || err.Error() != "too much" {
			t.Errorf("%s: %+v", name, got)
		}
		_, err = ask("/odd")
		if got := inproc.AsProblem(err); got == nil || got.Status != 502 || got.Code != "internal" ||
			got.Detail != "Bad Gateway" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

type unreachable struct{}

func (unreachable) Do(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func TestAServerThatIsNotReachedIsAnOutageButNotForWhoLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://query.example/v1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = inproc.Ask(unreachable{}, request); !fault.Is(err, fault.StoreDown) || inproc.AsProblem(err) != nil {
		t.Error(err)
	}
	leave()
	if _, err = inproc.Ask(unreachable{}, request); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
