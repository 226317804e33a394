package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/problem"
)

// Remote asks the routes of a query-api over HTTP, in another process or, by its Client, in this one. Errors are
// *problem.Problem where a route has something against what is asked.
type Remote struct {
	Client *http.Client
	Base   string // http://host:port
	Key    string // an API key; empty: none is sent
}

// ListIndexes lists the indexes that the caller may ask.
func (r Remote) ListIndexes(ctx context.Context) ([]Index, error) {
	var all []Index
	query := url.Values{"limit": {"1000"}}
	for range mostPages {
		var page struct {
			Items      []Index `json:"items"`
			NextCursor string  `json:"next_cursor"`
		}
		if err := r.sendRequest(ctx, http.MethodGet, "indexes?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
	}
	return nil, fault.TooLarge.At("list indexes of", r.Base).
		Because(fmt.Sprintf("the list has more than %d pages", mostPages))
}

// mostPages of a list are read.
const mostPages = 100

// Ask answers a question; the body is that of the query route, or with no index that of several.
func (r Remote) Ask(ctx context.Context, index string, body []byte) (out answer.Response, err error) {
	path := "query"
	if index != "" {
		path = "indexes/" + url.PathEscape(index) + "/query"
	}
	return out, r.sendRequest(ctx, http.MethodPost, path, body, &out)
}

// ReadChunk reads a chunk with what was extracted from it.
func (r Remote) ReadChunk(ctx context.Context, index, generation, id string) (out Detail, err error) {
	path := "indexes/" + url.PathEscape(index) + "/chunks/" + url.PathEscape(id) + "?" + paramsOf(generation).Encode()
	return out, r.sendRequest(ctx, http.MethodGet, path, nil, &out)
}

// ReadText reads a document, with the parameters of its route.
func (r Remote) ReadText(ctx context.Context, index, document string, values url.Values) (out DocumentText, err error) {
	parts := strings.Split(document, "/") // slashes of a key are the path's
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	path := "indexes/" + url.PathEscape(index) + "/documents/" + strings.Join(parts, "/") + "/text?" + values.Encode()
	return out, r.sendRequest(ctx, http.MethodGet, path, nil, &out)
}

// ListEntities lists entities, with the parameters of their route.
func (r Remote) ListEntities(ctx context.Context, index string, values url.Values) (out Entities, err error) {
	path := "indexes/" + url.PathEscape(index) + "/entities?" + values.Encode()
	return out, r.sendRequest(ctx, http.MethodGet, path, nil, &out)
}

// longest answer that is read, in bytes: a page of a hundred chunks of 4 MiB is none.
const longest = 64 << 20

// sendRequest sends a request and reads its answer. What the route says against it is a *problem.Problem; a server that
// is not reached is fault.StoreDown.
func (r Remote) sendRequest(ctx context.Context, method, address string, body []byte, to any) error {
	request, err := http.NewRequestWithContext(ctx, method, r.Base+"/v1/"+address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.Key)
	}
	response, err := r.Client.Do(request)
	if err != nil {
		if gone := ctx.Err(); gone != nil {
			return gone
		}
		return fault.StoreDown.At("ask", request.URL.Host).Because(err).Advise("check that query-api runs there")
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	if err != nil {
		return fault.StoreDown.At("read the answer of", request.URL.Host).Because(err)
	}
	if len(raw) > longest {
		return fault.TooLarge.At("read the answer of", request.URL.Host).Because("it is longer than 64 MiB")
	}
	if response.StatusCode == http.StatusOK {
		return json.Unmarshal(raw, to)
	}
	wrong := &problem.Problem{}
	if json.Unmarshal(raw, wrong) != nil || wrong.Code == "" {
		*wrong = problem.Problem{Code: string(fault.Internal), Detail: http.StatusText(response.StatusCode)}
	}
	wrong.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		wrong.RetryAfter = time.Duration(seconds) * time.Second
	}
	return wrong
}
