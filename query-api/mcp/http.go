package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/query-api/middleware"
)

// maxBody of a message, in bytes.
const maxBody = 256 << 10

// Handler serves tools over HTTP: one POST, one answer, no sessions, so that any replica answers any request. Who asks,
// for which host and from which page is looked at before it, for every route alike; the library's own look at the host
// would refuse names of query_api.hosts that a proxy of the same machine passes on.
func Handler(backend Backend) http.Handler {
	tools := New(backend)
	serve := sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return tools },
		&sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
			DisableLocalhostProtection: true, PropagateRequestCancellation: true,
		},
	)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		written := &replies{ResponseWriter: w}
		defer written.end()
		// Of what is larger, or does not come, the library meets the rest and says it.
		message, err := io.ReadAll(io.LimitReader(request.Body, maxBody))
		if why := malformed(message, err == nil); why != "" {
			http.Error(written, why, http.StatusBadRequest)
			return
		}
		ctx := context.WithValue(request.Context(), requestContext{}, request.Context())
		request = request.WithContext(ctx)
		request.Body = peeked{io.MultiReader(bytes.NewReader(message), request.Body), request.Body}
		serve.ServeHTTP(written, request)
	})
}

// malformed says what is wrong with the form of a message, as far as the library lets it pass: it reads what is nested
// once for each level around it, and takes an answer to what this server never asked, and parameters in a list. Some
// versions of the protocol have lists of messages, all of which the library answers at once: a single request would
// pass the rate and the concurrency of a key, and hold the answers to thousands.
func malformed(message []byte, whole bool) string {
	if bytes.HasPrefix(bytes.TrimLeft(message, " \t\r\n"), []byte("[")) {
		return "several messages in one request are not taken: send each by itself"
	}
	if !whole || len(message) == maxBody {
		return "" // the library says it
	}
	if err := middleware.CheckJSON(message); err != nil {
		return err.Error()
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(message, &parts) != nil {
		return "a message is an object"
	}
	if _, named := parts["method"]; !named {
		return "a message has a method: nothing is asked of who sends it"
	}
	var inner map[string]json.RawMessage
	_ = json.Unmarshal(parts["params"], &inner) // what is no object has no fields, and is refused below
	for _, field := range forms {
		given := parts[field.name]
		if name, within := strings.CutPrefix(field.name, "params."); within {
			given = inner[name]
		}
		if len(given) > 0 && !strings.ContainsRune(field.begins, rune(given[0])) {
			return fmt.Sprintf("%s of a message is %s, not %.80s", field.name, field.want, given)
		}
	}
	return ""
}

// forms are what fields of a message are, where there are any, by how they may begin.
var forms = []struct{ name, begins, want string }{
	{"jsonrpc", `"`, "a text"},
	{"id", `"-0123456789n`, "a text or a number"},
	{"method", `"`, "a text"},
	{"params", `{n`, "an object"},
	{"params.name", `"`, "a text"},
	{"params.arguments", `{n`, "an object"},
	{"params.uri", `"`, "a text"},
}

// peeked is a body of which the beginning was looked at.
type peeked struct {
	io.Reader
	io.Closer
}

// Message is a request of JSON-RPC, or a notification.
type Message struct {
	JSONRPC string `json:"jsonrpc" enum:"2.0" doc:"the version of JSON-RPC"`
	ID      any    `json:"id,omitempty" types:"string,number" doc:"of a request; a notification has none"`
	Method  string `json:"method" doc:"of the protocol: tools/list, tools/call and others"`
	Params  any    `json:"params,omitempty" types:"object,null" doc:"of the method"`
}

// Reply is the answer to a Message: a result or an error.
type Reply struct {
	JSONRPC string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Result  any    `json:"result,omitempty"`
	Error   any    `json:"error,omitempty"`
}

// replies makes errors of JSON-RPC of those that the library writes as plain text.
type replies struct {
	http.ResponseWriter
	plain *bytes.Buffer // the text of one; nil: none
}

// WriteHeader implements http.ResponseWriter.
func (r *replies) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(r.Header().Get("Content-Type"), "text/plain") {
		r.plain = &bytes.Buffer{}
		r.Header().Set("Content-Type", "application/json")
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *replies) Write(p []byte) (int, error) {
	if r.plain != nil {
		return r.plain.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *replies) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *replies) end() {
	if r.plain == nil {
		return
	}
	wrong := map[string]any{"code": jsonrpc.CodeInvalidRequest, "message": strings.TrimSpace(r.plain.String())}
	_ = json.NewEncoder(r.ResponseWriter).Encode(Reply{JSONRPC: "2.0", Error: wrong}) // the caller may have gone
}
