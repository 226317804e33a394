// Package inproc lets a program ask the routes of query-api: those of a server over HTTP, or those of the same process,
// in the name of who asked it. Guards, limits and errors are the routes' own in both.
package inproc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Doer sends requests; http.Client is one.
type Doer interface {
	Do(request *http.Request) (*http.Response, error)
}

// Routes answers requests by a handler of the same process. The caller is whom the request's context names.
type Routes struct{ Handler http.Handler }

// Do implements Doer; it never fails.
func (r Routes) Do(request *http.Request) (*http.Response, error) {
	written := &answer{header: http.Header{}, status: http.StatusOK}
	r.Handler.ServeHTTP(written, request)
	return &http.Response{
		StatusCode: written.status, Header: written.header, Body: io.NopCloser(&written.body), Request: request,
	}, nil
}

// answer is a ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int
	began  bool
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.began {
		a.began, a.status = true, status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.began = true
	return a.body.Write(p)
}

// Problem is an error that a route answered with (RFC 9457).
type Problem struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	Hint       string        `json:"hint"`
	Param      string        `json:"param"`
	Reference  string        `json:"reference"`
	RetryAfter time.Duration `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// longest answer that is read, in bytes: a page of a hundred chunks of 4 MiB is none.
const longest = 64 << 20

// Ask sends a request and gives the body of its answer. What the route says against it is a *Problem; a server that is
// not reached is fault.StoreDown.
func Ask(to Doer, request *http.Request) ([]byte, error) {
	response, err := to.Do(request)
	if err != nil {
		if gone := request.Context().Err(); gone != nil {
			return nil, gone
		}
		return nil, fault.StoreDown.At("ask", request.URL.Host).Because(err).Advise("check that query-api runs there")
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	if err != nil {
		return nil, fault.StoreDown.At("read the answer of", request.URL.Host).Because(err)
	}
	if len(body) > longest {
		return nil, fault.TooLarge.At("read the answer of", request.URL.Host).Because("it is longer than 64 MiB")
	}
	if response.StatusCode == http.StatusOK {
		return body, nil
	}
	problem := &Problem{}
	if json.Unmarshal(body, problem) != nil || problem.Code == "" {
		*problem = Problem{Code: string(fault.Internal), Detail: http.StatusText(response.StatusCode)}
	}
	problem.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return nil, problem
}

// AsProblem finds the problem in an error, or gives nil.
func AsProblem(err error) *Problem {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem
	}
	return nil
}
