package httpapi

import (
	"encoding"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/unweaver/unweaver/internal/fault"
)

// asEncoded reads what encoding/json writes; its errors name the place of a value.
var asEncoded = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// readRequest reads the JSON value of a request. An error names a field by its path.
func readRequest(name string, body io.Reader, in any) error {
	err := jsonv2.UnmarshalDecode(jsontext.NewDecoder(body, asEncoded), in, asEncoded)
	var form *jsontext.SyntacticError
	var meaning *jsonv2.SemanticError
	why := ""
	switch {
	case err == nil:
		return nil
	case errors.As(err, &meaning) && meaning.GoType != nil:
		why = "it has the wrong type"
		isText := meaning.JSONKind == '"' && reflect.PointerTo(meaning.GoType).Implements(textReader)
		if isText && meaning.Err != nil {
			why = meaning.Err.Error() // what the type says of a text
		}
		if field := strings.Join(slices.Collect(meaning.JSONPointer.Tokens()), "."); field != "" {
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
