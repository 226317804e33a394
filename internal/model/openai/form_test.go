package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// formOf says how a request asks for what its answer must look like, and whether it sets a temperature.
func formOf(body string) string {
	form := "prompt"
	for _, one := range []string{"json_schema", "json_object"} {
		if strings.Contains(body, `"type":"`+one+`"`) {
			form = one
		}
	}
	if !strings.Contains(body, `"temperature"`) {
		form += " without temperature"
	}
	return form
}

// Which form a server takes is found out once an endpoint and model, and what it refuses is not paid for.
// Promises: 70.
func TestAServerIsAskedInTheFormThatItTakes(t *testing.T) {
	for name, c := range map[string]struct {
		refuses map[string]string // what a body holds -> what the server says to it
		status  int
		sent    []string // by three calls
		fails   fault.Code
	}{
		"takes schemas": {nil, 400, []string{"json_schema", "json_schema", "json_schema"}, ""},
		"takes objects alone": {map[string]string{"json_schema": "'response_format.type' must be 'json_object' or 'text'"},
			400, []string{"json_schema", "json_object", "json_object", "json_object"}, ""},
		"knows no JSON mode": {map[string]string{"response_format": "This response_format type is unavailable now"}, 400,
			[]string{"json_schema", "json_object", "prompt", "prompt", "prompt"}, ""},
		"does not know the parameter": {
			map[string]string{"response_format": `[{"loc":["body","response_format"],"msg":"Extra inputs"}]`}, 422,
			[]string{"json_schema", "json_object", "prompt", "prompt", "prompt"}, "",
		},
		"has not built it": {map[string]string{"json_schema": "structured output is not there yet"}, 501,
			[]string{"json_schema", "json_object", "json_object", "json_object"}, ""},
		"takes its own temperature": {
			map[string]string{"temperature": "'temperature' does not support 0 with this model."}, 400,
			[]string{
				"json_schema", "json_schema without temperature", "json_schema without temperature",
				"json_schema without temperature",
			}, "",
		},
		"knows neither, nor a limit": {
			map[string]string{
				"response_format": "response_format: unknown", "temperature": "temperature is fixed",
				"_tokens": "unknown parameter max_tokens, max_completion_tokens",
			}, 400,
			[]string{
				"json_schema", "json_object", "prompt", "prompt without temperature", "prompt without temperature",
				"prompt without temperature", "prompt without temperature", "prompt without temperature",
			}, "",
		},
		"refuses whatever it is asked": {map[string]string{"messages": "response_format is not supported"}, 400,
			slices.Repeat([]string{"json_schema", "json_object", "prompt"}, 3), fault.BadConfig},
		"is unreachable by another name": {map[string]string{"messages": "upstream mismatch"}, 400,
			slices.Repeat([]string{"json_schema"}, 3), fault.ModelRefused},
	} {
		t.Run(name, func(t *testing.T) {
			var sent []string
			client := hostile(t, func(w http.ResponseWriter, request *http.Request) {
				raw, _ := io.ReadAll(request.Body)
				sent = append(sent, formOf(string(raw)))
				for _, what := range []string{"response_format", "json_schema", "temperature", "_tokens", "messages"} {
					if why := c.refuses[what]; why != "" && strings.Contains(string(raw), what) {
						w.WriteHeader(c.status)
						_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, why)
						return
					}
				}
				_, _ = io.WriteString(w, says(`{"prompt_tokens":2,"completion_tokens":3}`))
			})
			var metered account
			chat := model.MeterChat(client, &metered)
			call := model.Call{Task: "extract", User: "hello", Schema: []byte(`{"type":"object"}`)}
			for range 3 {
				_, err := chat.Complete(t.Context(), call)
				require.True(t, (c.fails != "" || err == nil) && (c.fails == "" || fault.Is(err, c.fails)),
					"%v, want %q", err, c.fails)
			}
			assert.True(t, slices.Equal(sent, c.sent), "sent %q,\nwant %q", sent, c.sent)
			paid := int64(3)
			if c.fails != "" {
				paid = 0
			}
			if all := int64(len(sent)); metered.begun != all || metered.ended != all || metered.paid != paid {
				t.Errorf("%d requests are metered as %d, %d and %d paid", all, metered.begun, metered.ended, metered.paid)
			}
		})
	}
}

// A form that no configuration asked for is not negotiated about.
func TestACallWithoutASchemaIsSentOnce(t *testing.T) {
	sent := 0
	client := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"response_format is not supported"}}`)
	})
	_, err := client.Complete(t.Context(), model.Call{User: "hello"})
	assert.True(t, err != nil && sent == 1, "%d requests, %v", sent, err)
}
