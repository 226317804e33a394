package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// QueryClient waits as long as query-api may take for an answer. It follows no redirect: question and key are for the
// address that was given.
var QueryClient = &http.Client{
	Timeout:       2*time.Minute + 10*time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// mostAnswer is how long a response may be, in bytes.
const mostAnswer = 64 << 20

type queryKey struct{}

// withKey lets Ask send an API key.
func withKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, queryKey{}, key)
}

// KeyOf returns the API key of queries.
func KeyOf(ctx context.Context) string {
	key, _ := ctx.Value(queryKey{}).(string)
	return key
}

// Ask posts a query and gives the raw response. Several indexes have + between their names, and may be patterns.
func Ask(ctx context.Context, base, index string, body map[string]any) ([]byte, error) {
	path := "/v1/indexes/" + url.PathEscape(index) + "/query"
	if strings.ContainsAny(index, "+*") {
		path = "/v1/query"
		body["indexes"] = strings.Split(index, "+")
	}
	return Post(ctx, base, path, body)
}

// Post sends a body to query-api and gives the raw response.
func Post(ctx context.Context, base, path string, body any) ([]byte, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key := KeyOf(ctx); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := QueryClient.Do(req)
	if err != nil {
		return nil, fault.StoreDown.At("query", base).Because(err).Advise("check that query-api runs at this address")
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	if err == nil && len(raw) > mostAnswer {
		err = fmt.Errorf("the response has more than %d MiB", mostAnswer>>20)
	}
	if err != nil {
		return nil, fault.StoreDown.At("query", base).Because(err).Advise("check that query-api runs at this address")
	}
	if response.StatusCode != http.StatusOK {
		return nil, newRefusal(response, raw)
	}
	return raw, nil
}

// newRefusal returns the error that an answer other than 200 has.
func newRefusal(response *http.Response, raw []byte) error {
	var problem struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
		Hint   string `json:"hint"`
	}
	if json.Unmarshal(raw, &problem) != nil || problem.Code == "" {
		problem.Code, problem.Detail = string(fault.Internal), response.Status
		if to := response.Header.Get("Location"); to != "" {
			problem.Code = string(fault.Usage)
			problem.Hint = "give the address to which the server redirects: " + fault.QuoteName(to)
		}
	}
	return fault.Code(problem.Code).At("", "").Because(problem.Detail).Advise(problem.Hint)
}
