package httpapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// Control is of all indexes, so it takes a key of all of them; keys are made by those who may make every key.
// Promises: 140.
func TestAKeyControlsByItsScopeAndOnlyWhereItIsOfAllIndexes(t *testing.T) {
	keys := map[string]*access.Key{
		"query": {Scope: access.Query, Index: "*"}, "operate": {Scope: access.Operate, Index: "*"},
		"admin": {Scope: access.Admin, Index: "*"}, "operate one": {Scope: access.Operate, Index: "docs"},
		"admin of some": {Scope: access.Admin, Index: "d*"},
	}
	server := httptest.NewServer(httpapi.Handler(&recorder{}, httpapi.Access{
		Token: "token", Keys: access.Book{Store: blobmemory.New()},
		Check: func(_ context.Context, text string) (*access.Key, error) {
			if key := keys[text]; key != nil {
				return key, nil
			}
			return nil, errors.New("no such key")
		},
	}))
	defer server.Close()
	for text, want := range map[string]struct{ control, keys bool }{
		"token": {true, true}, "admin": {true, true}, "operate": {true, false}, "query": {}, "operate one": {},
		"admin of some": {}, "another": {}, "": {},
	} {
		client := &httpapi.Client{Base: server.URL, Token: text}
		_, err := client.ListGenerations(t.Context(), "docs")
		assert.True(t, (err == nil) == want.control, "%q controls: %v", text, err)
		_, err = client.ListKeys(t.Context())
		assert.True(t, (err == nil) == want.keys, "%q sees keys: %v", text, err)
	}
}

func TestWhoHasTheTokenProvesIt(t *testing.T) {
	server := httptest.NewServer(httpapi.Handler(&recorder{}, httpapi.Access{Token: "right"}))
	defer server.Close()
	for token, want := range map[string]bool{"right": true, "wrong": false, "": false} {
		got, err := httpapi.HasToken(t.Context(), server.URL, token)
		assert.True(t, got == want && err == nil, "%q: %v, %v", token, got, err)
	}
	if got, err := httpapi.HasToken(t.Context(), "http://127.0.0.1:1", "right"); got || err != nil {
		t.Errorf("nothing listens: %v, %v", got, err)
	}
	for _, challenge := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 66)} {
		response, err := http.Get(server.URL + httpapi.Prefix + "proof?challenge=" + challenge)
		require.NoError(t, err)
		_ = response.Body.Close()
		assert.True(t, response.StatusCode == http.StatusNotFound, "%q is answered with %s", challenge, response.Status)
	}
}

// A program at the port of a dead stack may pass the question on to a living one with the same token, or ask that one
// itself: the answer is of another address, and a redirection is not followed.
// Promises: 105.
func TestAProofIsOfOneAddress(t *testing.T) {
	var asked atomic.Int32
	handler := httpapi.Handler(&recorder{}, httpapi.Access{Token: "right"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		handler.ServeHTTP(w, request)
	}))
	defer server.Close()
	for times, relay := range []http.HandlerFunc{
		func(w http.ResponseWriter, request *http.Request) {
			http.Redirect(w, request, server.URL+request.URL.String(), http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, request *http.Request) {
			answer, err := http.Get(server.URL + request.URL.String())
			if assert.NoError(t, err) {
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
				_ = answer.Body.Close()
			}
		},
	} {
		passing := httptest.NewServer(relay)
		got, err := httpapi.HasToken(t.Context(), passing.URL, "right")
		assert.True(t, !got && err == nil && int(asked.Load()) == times, "%v, %v after %d questions", got, err, asked.Load())
		passing.Close()
	}
}

func TestAnAddressThatStaysSilentIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	httpapi.ProofDeadline(t)
	got, err := httpapi.HasToken(t.Context(), "http://"+listener.Addr().String(), "right")
	assert.True(t, !got && err != nil, "%v, %v", got, err)
}
