package stage

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/unweaver/unweaver/internal/core"
)

// EncodingOf returns the set of characters that the configuration gives for an object, empty where it gives none.
func EncodingOf(spec core.Spec, object string) string {
	if spec.Documents == nil {
		return ""
	}
	for _, one := range spec.Documents.Encoding {
		pattern, charset, _ := strings.Cut(one, "=")
		if matches, err := doublestar.Match(pattern, object); matches && err == nil {
			return charset
		}
	}
	return ""
}
