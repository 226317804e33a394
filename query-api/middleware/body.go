package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/fault"
)

// CheckJSON refuses a body that is not one JSON value in UTF-8, or is nested deeper than any request is: readers of
// JSON may look at what is inside once for each level around it.
func CheckJSON(body []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	_, err := decoder.ReadToken()
	for err == nil && decoder.StackDepth() > 0 {
		if decoder.StackDepth() > maxNesting {
			return fault.Usage.At("read body", "").
				Because(fmt.Sprintf("it is nested more than %d levels deep", maxNesting)).
				Advise("send less deeply nested values")
		}
		_, err = decoder.ReadToken()
	}
	var form *jsontext.SyntacticError
	var why string
	switch {
	case errors.Is(err, io.EOF):
		why = "the body is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		why = fmt.Sprintf("the body ends in the middle of a JSON value (byte %d)", len(body))
	case errors.As(err, &form):
		why = fmt.Sprintf("the body is no JSON at byte %d: %s", form.ByteOffset, form.Err)
	case len(bytes.TrimSpace(body[decoder.InputOffset():])) > 0:
		why = fmt.Sprintf("something follows the JSON object at byte %d", decoder.InputOffset())
	default:
		return nil
	}
	return fault.Usage.At("read body", "").Because(why).Advise("send exactly one JSON object, encoded as UTF-8")
}

// ReadBody reads a body of at most so many bytes to its end; advice is for one that is larger.
func ReadBody(w http.ResponseWriter, request *http.Request, most int64, advice string) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, request.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, BodyTooLarge(most, advice)
	case err != nil && !fault.Is(err, fault.BodyTimeout):
		return nil, fault.Usage.At("read body", "").Because("the connection closed before the body was complete")
	}
	return raw, err
}

// BodyTooLarge returns the error of a body of more bytes than it may have.
func BodyTooLarge(most int64, advice string) error {
	return fault.TooLarge.At("read body", "").
		Because(fmt.Sprintf("a request can have at most %d KiB", most>>10)).
		Advise(advice)
}

// maxNesting of a body; what a query means takes four levels.
const maxNesting = 32
