package middleware

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/fault"
)

// maxNesting of a body; what a query means takes four levels.
const maxNesting = 32

// CheckNesting refuses JSON with more levels than any request has: readers of JSON may look at what is inside once for
// each level around it. It counts brackets outside strings and leaves what is no JSON to the reader.
func CheckNesting(body []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fault.Usage.At("read body", "").
					Because(fmt.Sprintf("it is nested deeper than %d", maxNesting)).
					Advise("send values that are nested less")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
