package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

// errEmpty refuses an empty name: null is as good as nothing, an empty name is a mistake.
var errEmpty = errors.New("it is empty")

// readText reads a string. Null is refused in a list, in a map and for the question.
func readText(decoder *jsontext.Decoder, text *string) error {
	method := decoder.StackDepth() == 1 && decoder.StackPointer() == "/method" // writing a pointer takes all levels
	raw, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	switch kind := raw.Kind(); {
	case kind == '"' && method && string(raw) == `""`:
		return errEmpty
	case kind == '"':
		unquoted, _ := jsontext.AppendUnquote(nil, raw) // the decoder has checked it
		*text = string(unquoted)
	case kind != 'n':
		return errors.New("want a text, got " + answer.KindName(kind))
	case !method:
		return errors.New("want a value, got null")
	}
	return nil
}

// bodyOptions refuse what a body cannot mean; that names come twice or in other letters is refused anyhow.
var bodyOptions = json.JoinOptions(
	json.RejectUnknownMembers(true), json.WithUnmarshalers(json.UnmarshalFromFunc(readText)),
)

// readBody reads the one JSON object that a body is.
func readBody(raw []byte, to any) error {
	if err := middleware.CheckJSON(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, to, bodyOptions); err != nil {
		return refuseBody(err)
	}
	return nil
}

// refuseBody names the field that an error is about, and what to do.
func refuseBody(err error) error {
	var form *jsontext.SyntacticError
	var meaning *json.SemanticError
	if errors.As(err, &form) { // it is JSON: nothing else is left
		return newFault("read query", fieldOf(form.JSONPointer), "the field is given twice", "")
	}
	if !errors.As(err, &meaning) {
		return fault.Usage.At("read body", "").Because(err)
	}
	field := fieldOf(meaning.JSONPointer)
	switch {
	case errors.Is(meaning.Err, json.ErrUnknownName):
		return newFault("read query", field, "unknown field", "known: "+strings.Join(keysOf(meaning.GoType), ", "))
	case errors.Is(meaning.Err, errEmpty):
		return newFault("read query", field, errEmpty.Error(), "omit it or send null to use the default of the index")
	case meaning.Err != nil: // what the types of fields say
		return newFault("read query", field, meaning.Err.Error(), "")
	}
	return newFault("read query", field, "want "+kindOf(meaning.GoType)+", got "+answer.KindName(meaning.JSONKind), "")
}

// kindOf says in words of JSON what a field takes.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int64, reflect.Float64:
		return "a number"
	}
	return "an object"
}

// fieldOf writes a place in a body as its fields, with points between them.
func fieldOf(place jsontext.Pointer) string { return strings.Join(slices.Collect(place.Tokens()), ".") }

// keysOf returns the fields of a body, for people who misspelt one.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, field := range reflect.VisibleFields(t) {
		if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "-" && !field.Anonymous {
			keys = append(keys, key)
		}
	}
	return keys
}

// checkRoute lets through to a route who may use it and what it takes.
func (s *Server) checkRoute(route route) http.HandlerFunc {
	known := map[string]bool{}
	for _, parameter := range route.Query {
		known[parameter.Name] = true
	}
	return func(w http.ResponseWriter, request *http.Request) {
		request, err := middleware.ForRoute(request, route.Scope, request.PathValue("index"))
		if middleware.IsOpen(request) {
			err = nil
		}
		caller := middleware.CallerOf(request.Context())
		if err == nil && route.Control {
			err = caller.NeedProof()
		}
		index := request.PathValue("index")
		noteMatched(request, route, index)
		switch {
		case fault.Is(err, fault.Unauthorized):
			w.Header().Set("WWW-Authenticate", `Bearer realm="unweaver"`)
		case err != nil:
		case index != "" && (!core.ValidIndex(index) || !caller.MayRead(index)):
			err = served.UnknownIndex(index) // as if it were not there: names do not leak
		default:
			err = parametersOf(request.URL.RawQuery, known)
		}
		if err == nil && route.Scope == access.Operate && index != "" { // runs and reports name all documents
			if err = s.served.NeedNamedCaller(request.Context(), index); fault.Is(err, fault.Unauthorized) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="unweaver"`)
			}
		}
		if err == nil && route.Body != nil && (!route.Control || request.ContentLength != 0) {
			err = middleware.NeedJSON(request)
		}
		if err != nil {
			s.writeError(w, request, err)
			return
		}
		route.Handler(w, request)
	}
}

// noteMatched notes for the log which operation a request is, on which index and with which key.
func noteMatched(request *http.Request, route route, index string) {
	of := matchedOf(request.Context())
	if of == nil {
		return
	}
	caller := middleware.CallerOf(request.Context())
	of.operation, of.control, of.key = route.ID, route.Control, caller.ID()
	of.labels = caller.Readers().Describe()
	if core.ValidIndex(index) {
		of.index = index
	}
}

// parametersOf checks a query string: each parameter is known and stands once.
func parametersOf(raw string, known map[string]bool) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fault.Usage.At("read request", "the query string").Because("it is malformed")
	}
	for name, list := range values {
		switch {
		case !known[name]:
			return newFault("read request", name, "unknown parameter", "")
		case len(list) > 1:
			return newFault("read request", name, "the parameter is given twice", "")
		case !utf8.ValidString(list[0]):
			return newFault("read request", name, "it is not UTF-8", "")
		}
	}
	return nil
}

var digits = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`)

// readNumber reads a parameter that is a whole number; one that is not there is otherwise.
func readNumber(values url.Values, name string, lo, hi, otherwise int) (int, error) {
	if !values.Has(name) {
		return otherwise, nil
	}
	text := values.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || !digits.MatchString(text) || n < lo || n > hi {
		return 0, newFault("read request", name, fmt.Sprintf("want a whole number from %d to %d, got %q", lo, hi, text), "")
	}
	return n, nil
}
