package api_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// Entities of a type, or of a document, are listed for programs and for agents; answers and passages show types.
func TestEntitiesOfATypeAreListed(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		types := map[string]string{"Oslo": "City", "Bergen": "City", "Tromsø": "City", "Fram": "Ship"}
		retrievetest.Publish(t, retrievetest.Build(t, f.stores, "typed", retrievetest.Sample(),
			retrievetest.Options{Types: types}), 1)
	})
	const list = "/v1/indexes/typed/entities"
	paged, requests := f.pages(list+"?type=city", "name", 2)
	assert.True(t, strings.Join(paged, ", ") == "Bergen, Oslo, Tromsø" && requests == 2, "%q in %d pages", paged, requests)
	for parameters, want := range map[string]string{
		"document=cities/oslo.txt": "Norway, Opera House, Oslo", "document=cities/oslo.txt&type=City": "Oslo",
		"type=CITY&order=passages&limit=1": "Oslo", "type=Ship&prefix=o": "",
	} {
		assert.Equal(t, want, names(f.get(list + "?" + parameters)["items"]), parameters)
	}
	first := f.get(list + "?type=ship")["items"].([]any)[0].(object)
	assert.True(t, first["type"] == "Ship" && f.get(list + "/" + first["id"].(string))["type"] == "Ship", "%v", first)
	wrong := f.refuse(422, "invalid_parameter", "GET", list+"?type=Town", nil)
	assert.Contains(t, wrong["hint"], "City, Ship")
	wrong = f.refuse(422, "invalid_parameter", "GET", "/v1/indexes/sample/entities?type=City", nil)
	assert.Contains(t, wrong["hint"], "extraction.types")
	f.refuse(404, "not_found", "GET", list+"?document=none", nil)
	var found answer.Response
	f.asked("/v1/indexes/typed/query", object{"query": "Fram", "method": "unweaver", "explain": true}, &found)
	assert.True(t, found.Entities[0].Type == "Ship" && slices.ContainsFunc(found.Chunks[0].Mentions,
		func(one answer.Mention) bool { return one.Name == "Fram" && one.Type == "Ship" }), "%+v", found)
	session := f.agent("")
	asked := object{"index": "typed", "type": "city", "max_tokens": 1}
	text, out, failed := call(t, session, "list_entities", asked)
	require.True(t, !failed && names(out["items"]) == "Bergen" && strings.Contains(text, "Bergen (City, "), text)
	asked["cursor"] = out["next_cursor"]
	for _, other := range []object{{"type": "Ship"}, {"type": "city", "generation": "other"}, {"index": "sample"}} {
		other["cursor"], other["index"] = asked["cursor"], cmp.Or(other["index"], any("typed"))
		text, _, failed = call(t, session, "list_entities", other)
		assert.True(t, failed && strings.Contains(text, "not a cursor of this list"), text)
	}
	_, out, failed = call(t, session, "list_entities", asked)
	require.True(t, !failed && names(out["items"]) == "Oslo", "%v", out)
	asked["cursor"], asked["max_tokens"] = out["next_cursor"], 200
	_, out, failed = call(t, session, "list_entities", asked)
	assert.True(t, !failed && names(out["items"]) == "Tromsø" && out["next_cursor"] == nil, "%v", out)
	text, _, failed = call(t, session, "list_entities", object{"index": "typed", "type": "Town"})
	assert.True(t, failed && strings.Contains(text, "City, Ship"), text)
}
