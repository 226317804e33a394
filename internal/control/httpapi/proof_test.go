package httpapi_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control/httpapi"
)

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

// A program at the port of a dead stack may pass the question on to a living one with the same token: the answer is of
// another address.
// Promises: 105.
func TestAProofIsOfOneAddress(t *testing.T) {
	server := httptest.NewServer(httpapi.Handler(&recorder{}, httpapi.Access{Token: "right"}))
	defer server.Close()
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, server.URL+request.URL.String(), http.StatusTemporaryRedirect)
	}))
	defer relay.Close()
	if got, err := httpapi.HasToken(t.Context(), relay.URL, "right"); got || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnAddressThatStaysSilentIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	httpapi.ProofDeadline(t)
	if got, err := httpapi.HasToken(t.Context(), "http://"+listener.Addr().String(), "right"); got || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}
