package httpapi

import (
	"encoding"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/unweaver/unweaver/internal/fault"
)

// asEncoded reads what encoding/json writes; its errors name the place of a value.
var asEncoded = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// readRequest reads the JSON value of a request. An error names a field by its path and says what it takes.
func readRequest(name string, body io.Reader, in any) error {
	err := jsonv2.UnmarshalDecode(jsontext.NewDecoder(body, asEncoded), in, asEncoded)
	var form *jsontext.SyntacticError
	var meaning *jsonv2.SemanticError
	why := ""
	switch {
	case err == nil:
		return nil
	case errors.As(err, &meaning) && meaning.GoType != nil:
		field := strings.Join(slices.Collect(meaning.JSONPointer.Tokens()), ".")
		if why = wantOf(meaning); field != "" {
			why = field + ": " + why
		}
	case errors.As(err, &form):
		why = "it is not valid JSON: " + form.Err.Error()
	case errors.Is(err, io.EOF):
		why = "it is empty"
	default:
		return fault.Usage.At("read the request", name).Because(err)
	}
	return fault.Usage.At("read the request", name).Because(why).Advise("send one JSON object")
}

var textReader = reflect.TypeFor[encoding.TextUnmarshaler]()

// wantOf says what a place takes, and what it was given.
func wantOf(e *jsonv2.SemanticError) string {
	t := e.GoType
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := "an object"
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Time]():
		want = "a time, as 2026-01-31T12:00:00Z"
	case reflect.PointerTo(t).Implements(textReader):
		if e.Err != nil && e.JSONKind == '"' { // what the type says of a text
			return e.Err.Error()
		}
		want = "a text"
	case kind == reflect.Bool:
		want = "true or false"
	case kind == reflect.String:
		want = "a text"
	case kind == reflect.Float64:
		want = "a number"
	case kind >= reflect.Int && kind <= reflect.Uint64:
		want = "a whole number"
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		want = "text in base64"
	case kind == reflect.Slice || kind == reflect.Array:
		want = "a list"
	}
	got := map[jsontext.Kind]string{
		'{': "an object", '[': "a list", '"': "a text", '0': "a number", 't': "true", 'f': "false",
	}
	if e.JSONKind == '"' && want == "a text" || e.JSONKind == '0' && want == "a whole number" {
		return "want " + want + " that it can hold"
	}
	if got[e.JSONKind] == "" {
		return "want " + want
	}
	return "want " + want + ", got " + got[e.JSONKind]
}
