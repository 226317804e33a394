package middleware_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

func TestABodyThatIsNoJSONIsRefusedWithItsPlace(t *testing.T) {
	for body, why := range map[string]string{
		``:                      "the body is empty",
		` {"query": "x`:         "ends in the middle of a JSON value (byte 13)",
		`{"query": x}`:          "no JSON at byte 10: invalid character 'x'",
		"{\"query\": \"\xff\"}": "no JSON at byte 11: invalid UTF-8",
		`{"query": "\ud800"}`:   "no JSON at byte 11: invalid surrogate pair",
		`{} {}`:                 "something follows the JSON object at byte 2",
	} {
		err := middleware.CheckJSON([]byte(body))
		assert.True(t, fault.Is(err, fault.Usage), "%q: %v", body, err)
		assert.ErrorContains(t, err, why)
	}
	assert.NoError(t, middleware.CheckJSON([]byte(" {\"query\": \"\ufffd\", \"query\": 1}\n")))
}

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
		err := middleware.CheckJSON([]byte(c.body)) // some are no JSON
		assert.Equal(t, err == nil || !strings.Contains(err.Error(), "nested more than 32"), c.fits, "%s: %v", name, err)
	}
}
