package middleware_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

func TestBodiesAreNestedToALimit(t *testing.T) {
	nested := func(levels int, inside string) string {
		return strings.Repeat("[", levels) + inside + strings.Repeat("]", levels)
	}
	for name, c := range map[string]struct {
		body string
		fits bool
	}{
		"none":                     {``, true},
		"a value":                  {`1`, true},
		"as deep as may be":        {nested(32, `1`), true},
		"a level more":             {nested(33, ``), false},
		"objects":                  {strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33), false},
		"never ended":              {strings.Repeat("[", 60), false},
		"beside each other":        {nested(1, strings.Repeat(`[],{},`, 100)+`1`), true},
		"brackets of a text":       {`{"query":"` + strings.Repeat("[", 60) + `"}`, true},
		"after a quote in a text":  {`{"query":"\"` + strings.Repeat("[", 60) + `"}`, true},
		"after a text that ends":   {`{"query":"\\",` + strings.Repeat("[", 60), false},
		"a text that never ends":   {`{"query":"\`, true},
		"closed more than opened":  {strings.Repeat("]", 60), true},
		"at the end of a long one": {`[` + strings.Repeat(`"",`, 10_000) + nested(32, ``) + `]`, false},
	} {
		err := middleware.CheckNesting([]byte(c.body))
		assert.Equal(t, err == nil, c.fits, "%s: %v", name, err)
		assert.True(t, err == nil || fault.Is(err, fault.Usage) && strings.Contains(err.Error(), "nested deeper than 32"),
			"%s: %v", name, err)
	}
}
