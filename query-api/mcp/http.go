package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unweaver/unweaver/query-api/middleware"
)

// maxBody of a message, in bytes.
const maxBody = 256 << 10

// Handler serves tools over HTTP: one POST, one answer, no sessions, so that any replica answers any request. Who asks,
// for which host and from which page is looked at before it, for every route; the library's own look at the host
// would refuse names of query_api.hosts that a proxy of the same machine passes on.
func Handler(to Remote) http.Handler {
	tools := New(to)
	serve := sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return tools },
		&sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
			DisableLocalhostProtection: true, PropagateRequestCancellation: true,
		},
	)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		// Of what is larger, or does not come, the library meets the rest and says it.
		message, err := io.ReadAll(io.LimitReader(request.Body, maxBody))
		written := &replies{ResponseWriter: w, id: idOf(message), code: jsonrpc.CodeInvalidRequest}
		defer written.endReply()
		if wrong := checkMessage(message, err == nil); wrong != nil {
			written.code = wrong.Code
			http.Error(written, wrong.Message, http.StatusBadRequest)
			return
		}
		ctx := context.WithValue(request.Context(), requestContext{}, request.Context())
		request = request.WithContext(ctx)
		request.Body = peeked{io.MultiReader(bytes.NewReader(message), request.Body), request.Body}
		serve.ServeHTTP(written, request)
	})
}

// checkMessage says what is wrong with the form of a message, as far as the library lets it pass: it reads what is
// nested once for each level around it, and takes an answer to what this server never asked, and parameters in a list.
// Some versions of the protocol have lists of messages, all of which the library answers at once: a single request
// would pass the rate and the concurrency of a key, and hold the answers to thousands.
func checkMessage(message []byte, whole bool) *jsonrpc.Error {
	if bytes.HasPrefix(bytes.TrimLeft(message, " \t\r\n"), []byte("[")) {
		return newRefusal(jsonrpc.CodeInvalidRequest, "several messages in one request are not supported: send each alone")
	}
	if !whole || len(message) == maxBody {
		return nil // the library says it
	}
	if err := middleware.CheckJSON(message); err != nil {
		return newRefusal(jsonrpc.CodeParseError, err.Error())
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(message, &parts) != nil {
		return newRefusal(jsonrpc.CodeInvalidRequest, "a message must be a JSON object")
	}
	if _, named := parts["method"]; !named {
		return newRefusal(jsonrpc.CodeInvalidRequest, "the message has no method; this server expects no responses")
	}
	if string(parts["jsonrpc"]) != `"2.0"` {
		return newRefusal(jsonrpc.CodeInvalidRequest, `jsonrpc of a message is "2.0"`)
	}
	var inner map[string]json.RawMessage
	_ = json.Unmarshal(parts["params"], &inner) // what is no object has no fields, and is refused below
	for _, field := range forms {
		given, code := parts[field.name], int64(jsonrpc.CodeInvalidRequest)
		if strings.HasPrefix(field.name, "params") {
			code = jsonrpc.CodeInvalidParams
		}
		if name, within := strings.CutPrefix(field.name, "params."); within {
			given = inner[name]
		}
		if len(given) > 0 && !strings.ContainsRune(field.begins, rune(given[0])) {
			return newRefusal(code, fmt.Sprintf("%s of a message must be %s, not %.80s", field.name, field.want, given))
		}
	}
	method := strings.Trim(string(parts["method"]), `"`)
	if inner == nil && slices.Contains([]string{"initialize", "tools/call", "resources/read"}, method) {
		return newRefusal(jsonrpc.CodeInvalidParams, "this method requires params, an object")
	}
	return nil
}

func newRefusal(code int64, why string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: why}
}

// idOf returns the id of a message, or null where it has none or cannot be read.
func idOf(message []byte) json.RawMessage {
	var asked struct{ ID json.RawMessage }
	if json.Unmarshal(message, &asked) != nil || len(asked.ID) == 0 ||
		strings.IndexByte(forms[0].begins, asked.ID[0]) < 0 {
		return json.RawMessage("null")
	}
	return asked.ID
}

// forms are what fields of a message are, where there are any, by how they may begin.
var forms = []struct{ name, begins, want string }{
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
	id    json.RawMessage
	code  int64
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

func (r *replies) endReply() {
	if r.plain == nil {
		return
	}
	why := strings.TrimSpace(r.plain.String())
	if method, unknown := strings.CutPrefix(why, "JSON RPC not handled: "); unknown { // by the library
		r.code, why = jsonrpc.CodeMethodNotFound, "method not found: "+strings.TrimSuffix(method, " unsupported")
	}
	_ = json.NewEncoder(r.ResponseWriter).Encode(Reply{
		JSONRPC: "2.0", ID: r.id, Error: newRefusal(r.code, why),
	}) // the caller may have gone
}
