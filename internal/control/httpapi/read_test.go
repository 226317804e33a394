package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control/httpapi"
)

// A value of a wrong type is refused by the path of its field and what that takes, on every route, and no message has
// the name of a Go type.
func TestAValueOfAWrongTypeIsNamedByItsPath(t *testing.T) {
	handler := httpapi.Handler(&recorder{}, httpapi.Access{Token: "t"})
	goName := regexp.MustCompile(`\b(json|jsontext|struct|Go|control|core|access|httpapi|int\d*|bool|map|time\.Time)\b`)
	refused := func(route, body string) string {
		request := httptest.NewRequest(http.MethodPost, httpapi.Prefix+route, strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer t")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		var problem struct{ Code, Cause string }
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &problem), "%s %s: %s", route, body, recorder.Body)
		assert.Equal(t, "usage", problem.Code, "%s %s", route, body)
		assert.NotRegexp(t, goName, problem.Cause)
		return problem.Cause
	}
	source, err := os.ReadFile("routes.go")
	require.NoError(t, err)
	routes := regexp.MustCompile(`\(mux, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(routes), 35)
	for _, route := range routes {
		assert.Equal(t, "want an object, got a list", refused(route[1], "[]"), route[1])
	}
	for body, want := range map[string]string{
		``:                                  "it is empty",
		`{"spec":`:                          "it is not valid JSON: unexpected EOF",
		`{"spec":5}`:                        "spec: want an object, got a number",
		`{"spec":{"chat":{"model":{}}}}`:    "spec.chat.model: want a text, got an object",
		`{"spec":{"keep":"5"}}`:             "spec.keep: want a whole number, got a text",
		`{"spec":{"keep":1.5}}`:             "spec.keep: want a whole number that it can hold",
		`{"spec":{"include":"a"}}`:          "spec.include: want a list, got a text",
		`{"spec":{"include":["a",true]}}`:   "spec.include.1: want a text, got true",
		`{"spec":{"grace":5}}`:              "spec.grace: want a text, got a number",
		`{"rebuild":"yes"}`:                 "rebuild: want true or false, got a text",
		`{"spec":{"budget":{"money":"5"}}}`: "spec.budget.money: want a number, got a text",
	} {
		assert.Equal(t, want, refused("index", body), body)
	}
}
