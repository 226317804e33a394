package stage

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
)

// TypeOf returns the type of an object, which the configuration or its name gives, and whether it is packed. ok is
// false where neither does.
func TypeOf(spec core.Spec, object string) (kind document.Kind, gz, ok bool) {
	kind, gz, ok = document.TypeOf(object)
	if given := valueFor(spec.ReadAs().Types, object); given != "" {
		return document.Kind(given), gz, true
	}
	return kind, gz, ok
}

// EncodingOf returns the set of characters that the configuration gives for an object, empty where it gives none.
func EncodingOf(spec core.Spec, object string) string {
	return valueFor(spec.ReadAs().Encoding, object)
}

// valueFor returns the value of the first PATTERN=VALUE whose pattern matches an object, or nothing.
func valueFor(list []string, object string) string {
	for _, one := range list {
		pattern, value, _ := strings.Cut(one, "=")
		if matches, err := doublestar.Match(pattern, object); matches && err == nil {
			return value
		}
	}
	return ""
}
