package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer/bisect"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// Any filter leaves in what a plain reading of it by document leaves in.
func TestAFilterLeavesInWhatAPlainReadingDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	values := []string{
		"Ada", "Eve", "Ada, Eve", "Eve, Ada, Bo", "Bo", "2019", "2020.50", "-3", "1e3", "2019, 2021", "2026-01-31",
		"2026-01-31T12:00:00Z", "2026-02-01T01:00:00+02:00", "2026-02-01", "2026-02-30", "0x10", "Inf", "2026-1-31",
	}
	pick := func() string { return values[r.IntN(len(values))] }
	var documents []retrievetest.Document
	for i := range 60 {
		meta := map[string]string{}
		for _, field := range []string{"a", "b", "c"} {
			if r.IntN(4) > 0 {
				meta[field] = pick()
			}
		}
		documents = append(documents, retrievetest.Document{
			Key: fmt.Sprintf("%c/%02d", 'k'+i/20, i), Title: "T", Meta: meta,
			Modified: time.Date(2026, 1, 1+i%9, 0, 0, 0, 0, time.UTC),
			Chunks:   []retrievetest.Chunk{{Text: fmt.Sprintf("Harbour %d. ", i), Entities: []string{"Harbour"}}},
		})
	}
	f := serve(t, func(f *fixture, _ *api.Config) {
		built := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
		retrievetest.Publish(t, built, 2)
	})
	bounds := []any{2019, "2020.5", -3.0, 1000, "2026-01-31", "2026-02-01", "2026-01-31T12:00:00Z"}
	condition := func() any {
		switch r.IntN(8) {
		case 0:
			return pick()
		case 1:
			return []string{pick(), pick()}
		case 2:
			return object{"in": []string{pick(), "Ada"}, "not": pick()}
		case 3:
			return object{"not": []string{pick(), "Eve"}}
		case 4:
			return object{"exists": r.IntN(2) == 0}
		case 5:
			return object{"gte": -3.0, "lt": "2020.5"}
		}
		operator := []string{"gte", "gt", "lte", "lt"}[r.IntN(4)]
		return object{operator: bounds[r.IntN(len(bounds))]}
	}
	var filter func(depth int) object
	filter = func(depth int) object {
		out := object{"metadata": object{string(rune('a' + r.IntN(3))): condition()}}
		switch r.IntN(4) {
		case 0:
			out["document_prefix"] = string(rune('k' + r.IntN(3)))
		case 1:
			out["modified"] = object{"from": "2026-01-03", "to": "2026-01-07"}
		}
		if depth < 3 && r.IntN(2) == 0 {
			out["or"] = []any{filter(depth + 1), filter(depth + 1)}
		}
		return out
	}
	some := 0
	for range 400 {
		asked := filter(0)
		raw, _ := json.Marshal(asked)
		var plain object
		assert.NoError(t, json.Unmarshal(raw, &plain))
		var want, got []string
		for _, document := range documents {
			if isLeft(plain, document) {
				want = append(want, document.Key)
			}
		}
		out := f.ask(object{"query": "harbour", "method": "bm25", "top_chunks": 100, "filter": asked, "explain": true})
		for _, chunk := range out.Chunks {
			got = append(got, chunk.Document)
		}
		slices.Sort(got)
		assert.Equal(t, want, got, "%s", raw)
		if len(want) > 0 {
			some++
			assert.Contains(t, out.FilterText, fmt.Sprintf("leave %d of 60 documents", len(want)))
		}
	}
	assert.Greater(t, some, 100)
}

// isLeft reads a filter plainly.
func isLeft(filter object, document retrievetest.Document) bool {
	prefix, _ := filter["document_prefix"].(string)
	left := strings.HasPrefix(document.Key, prefix)
	if filter["modified"] != nil {
		left = left && document.Modified.Day() >= 3 && document.Modified.Day() < 7
	}
	for field, condition := range filter["metadata"].(object) {
		text, has := document.Meta[field]
		isOne := func(values any) bool {
			list, isList := values.([]any)
			if !isList {
				list = []any{values}
			}
			return has && slices.ContainsFunc(list, func(value any) bool {
				return strings.Contains(", "+text+", ", ", "+value.(string)+", ")
			})
		}
		operators, isObject := condition.(object)
		if !isObject {
			operators = object{"in": condition}
		}
		elements := strings.Split(text, ", ")
		for operator, value := range operators {
			switch operator {
			case "in":
				left = left && isOne(value)
			case "not":
				left = left && !isOne(value)
			case "exists":
				left = left && has == value
			default:
				elements = slices.DeleteFunc(elements, func(one string) bool { return !isOrdered(one, operator, value) })
				left = left && has && len(elements) > 0
			}
		}
	}
	either, _ := filter["or"].([]any)
	return left && (either == nil || slices.ContainsFunc(either, func(one any) bool {
		return isLeft(one.(object), document)
	}))
}

// isOrdered compares numbers, times, and a time with a day by the day that it is in.
func isOrdered(element, operator string, bound any) bool {
	order, limit := 0, fmt.Sprint(bound)
	at, err := strconv.ParseFloat(limit, 64)
	if number, wrong := strconv.ParseFloat(element, 64); err == nil {
		if order = cmp.Compare(number, at); wrong != nil || element == "Inf" {
			return false
		}
	} else {
		moment, err := time.Parse(time.RFC3339, element)
		if day, wrong := time.Parse(time.DateOnly, element); wrong == nil {
			moment, err = day, nil
		}
		if err != nil {
			return false
		}
		order = strings.Compare(moment.UTC().Format(time.DateOnly), limit)
		if end, wrong := time.Parse(time.RFC3339, limit); wrong == nil {
			order = moment.Compare(end)
		}
	}
	return order == 0 && len(operator) == 3 || order < 0 && operator[0] == 'l' || order > 0 && operator[0] == 'g'
}

// serveDocuments serves the sample as documents, each with its metadata.
func serveDocuments(t *testing.T, chat model.Chat, documents []retrievetest.Document) *fixture {
	return serve(t, func(f *fixture, config *api.Config) {
		built := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
		retrievetest.Publish(t, built, 2)
		config.Models = models{chat: chat}
	})
}

// plainly are documents as a plain reading of what they say of their time has them.
type plainly map[string]map[string]string

// isWithin compares days as texts, and a time with the day that it is in.
func (p plainly) isWithin(key, day string) bool {
	from, until := p[key]["valid_from"], p[key]["valid_until"]
	if from == "2026-02-30" {
		from = ""
	}
	if strings.Contains(until, "T") {
		return day >= from && day < until[:10]
	}
	return day >= from && (until == "" || day <= until)
}

// newer are the documents that name a key, but for those that the key leads back to.
func (p plainly) newer(key string) (out []string) {
	for other := range p {
		if p.names(other, key) && !p.leads(key, other, map[string]bool{}) {
			out = append(out, other)
		}
	}
	slices.Sort(out)
	return out
}

func (p plainly) names(newer, older string) bool {
	return strings.Contains(", "+p[newer]["supersedes"]+", ", ", "+older+", ")
}

func (p plainly) leads(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	seen[from] = true
	for next := range p {
		if p.names(from, next) && !seen[next] && p.leads(next, to, seen) {
			return true
		}
	}
	return false
}

func (p plainly) superseders(key, day string) []string {
	return slices.DeleteFunc(p.newer(key), func(other string) bool {
		return !p.isWithin(other, day) && len(p.superseders(other, day)) == 0
	})
}

// Whatever documents say of when they hold and of each other, cycles too, every method finds what a plain reading has
// in force, and what is superseded now is marked.
func TestAsOfFindsWhatAPlainReadingHasInForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	days := []string{"2019-06-01", "2020-01-01", "2020-01-02", "2021-07-15", "2999-01-01"}
	var documents []retrievetest.Document
	plain := plainly{}
	for i := range 40 {
		key, meta := fmt.Sprintf("d, %02d", i), map[string]string{"kind": "x"}
		pick := func(field string, values []string) {
			if r.IntN(3) == 0 {
				meta[field] = values[r.IntN(len(values))]
			}
		}
		pick("valid_from", append(days, "2026-02-30"))
		pick("valid_until", append(days, "2021-07-15T00:00:00Z"))
		var named []string
		for range r.IntN(3) * r.IntN(2) {
			named = append(named, fmt.Sprintf("d, %02d", r.IntN(42)))
		}
		if len(named) > 0 {
			meta["supersedes"] = strings.Join(named, ", ")
		}
		plain[key] = meta
		documents = append(documents, retrievetest.Document{
			Key: key, Title: "T", Meta: meta,
			Chunks: []retrievetest.Chunk{{Text: fmt.Sprintf("Harbour %d. ", i), Entities: []string{"Harbour"}}},
		})
	}
	f := serveDocuments(t, nil, documents)
	now, marked := time.Now().UTC().Format(time.DateOnly), 0
	for _, chunk := range f.ask(object{"query": "harbour", "method": "bm25", "top_chunks": 100}).Chunks {
		want := strings.Join(plain.superseders(chunk.Document, now), "|")
		assert.Equal(t, want, strings.Join(chunk.SupersededBy, "|"), chunk.Document)
		marked += len(chunk.SupersededBy)
	}
	assert.Greater(t, marked, 3)
	for _, day := range append(days, "2010-01-01", "2020-06-01", "2026-01-01") {
		want := []string{}
		for key := range plain {
			if plain.isWithin(key, day) && len(plain.superseders(key, day)) == 0 {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		require.True(t, len(want) > 5 && len(want) < 40, "%s: %v", day, want)
		for _, method := range []string{"bm25", "vector", "hybrid", "unweaver", "ppr", "aligned", "gem"} {
			got := []string{}
			out := f.ask(object{"query": "harbour", "method": method, "top_chunks": 100, "as_of": day, "explain": true})
			for _, chunk := range out.Chunks {
				got = append(got, chunk.Document)
				assert.Empty(t, chunk.SupersededBy)
			}
			slices.Sort(got)
			assert.Equal(t, want, got, "%s %s", method, day)
			assert.Contains(t, out.FilterText, fmt.Sprintf("as_of leave %d of 40 documents.", len(want)), method)
			assert.Contains(t, out.FilterText, "supersedes runs in a circle", method)
			assert.Contains(t, out.FilterText, "Keys that supersedes names and no document has: ", method)
		}
	}
}

// leases are versions of a lease, of which the last is not in force yet.
func leases(meta map[string]map[string]string) (out []retrievetest.Document) {
	for _, key := range []string{"a.md", "b.md", "c.md"} {
		out = append(out, retrievetest.Document{Key: key, Title: "Lease", Meta: meta[key], Chunks: []retrievetest.Chunk{
			{Text: "The harbour office pays a rent of 900 EUR by " + key + ". ", Entities: []string{"Harbour Office"}},
		}})
	}
	return out
}

// The chat model reads which passages are superseded, by which, and which weigh more. Without such fields it reads what
// it reads else, and so does a client.
func TestAnAnswerIsAskedWithWhatIsInForce(t *testing.T) {
	ask := object{"query": "What does the harbour office pay as a rent?", "answer": true}
	for name, c := range map[string]struct {
		meta         map[string]map[string]string
		asOf         string
		marks        []string // of the documents, in their order; - is one that is not found
		say          bool     // what marks mean
		quoted, left string
	}{
		"none": {meta: map[string]map[string]string{"a.md": {"author": "Ada"}}, marks: []string{"", "", ""}},
		"all": {meta: map[string]map[string]string{
			"a.md": {"valid_until": "2020-12-31", "authority": "1.50"}, "b.md": {"supersedes": "a.md", "authority": "2"},
			"c.md": {"supersedes": "b.md", "valid_from": "2999-01-01"},
		}, marks: []string{
			`; superseded by "b.md", passage N; in force until 2020-12-31 only; authority 1.5`, "; authority 2",
			"; not in force before 2999-01-01",
		}, say: true, quoted: `(superseded by "b.md", passage`},
		"then": {meta: map[string]map[string]string{
			"a.md": {"valid_until": "2020-12-31"}, "b.md": {"supersedes": "a.md", "valid_from": "2020-12-01T12:00:00Z"},
			"c.md": {"supersedes": "b.md", "valid_from": "2999-01-01"},
		}, asOf: "2020-12-01", marks: []string{"", "-", "-"}},
		"no date": {meta: map[string]map[string]string{
			"a.md": {"valid_from": "soon", "authority": "high"}, "b.md": {"supersedes": "b.md, d.md"},
		}, asOf: "2020-12-01", marks: []string{"", "", ""}},
	} {
		var seen []model.Call
		f := serveDocuments(t, parsing{seen: &seen}, leases(c.meta))
		body := object{"query": ask["query"], "answer": true, "explain": true}
		if c.asOf != "" {
			body["as_of"] = c.asOf
		}
		out := f.ask(body)
		require.Len(t, seen, 1, name)
		assert.Equal(t, c.say, strings.Contains(seen[0].System, "the higher authority"), name)
		found := map[string]int{}
		for _, chunk := range out.Chunks {
			found[chunk.Document] = chunk.Rank
		}
		for i, key := range []string{"a.md", "b.md", "c.md"} {
			if c.marks[i] == "-" {
				assert.NotContains(t, found, key, name)
				continue
			}
			mark := strings.ReplaceAll(c.marks[i], "N", fmt.Sprint(found["b.md"]))
			assert.Contains(t, seen[0].User, fmt.Sprintf("[%d] (Lease%s)\n", found[key], mark), name)
		}
		quoted := serveDocuments(t, nil, leases(c.meta)).ask(body).Answer.Text
		assert.Equal(t, c.quoted != "", strings.Contains(quoted, "superseded"), "%s: %s", name, quoted)
		assert.Contains(t, quoted, c.quoted, name)
		_, raw, _ := f.do("POST", sampleQuery, body)
		first := raw["chunks"].([]any)[found["a.md"]-1].(object)
		_, raw, _ = f.do("GET", "/v1/indexes/sample/chunks/"+first["id"].(string), nil)
		assert.NotContains(t, fmt.Sprint(raw), "superseded_by", name)
		for _, field := range []string{"superseded_by", "valid_until", "authority"} {
			shown := name == "all" || name == "then" && field == "valid_until"
			assert.Equal(t, shown, first[field] != nil, "%s: %v", name, first)
		}
	}
}

// A time that is none, and one at which nothing is in force, are said.
func TestAsOfThatFindsNothingSaysWhy(t *testing.T) {
	f := serveDocuments(t, nil, leases(map[string]map[string]string{
		"a.md": {"valid_from": "2020-01-01"}, "b.md": {"valid_from": "2020-01-01"}, "c.md": {"valid_from": "2021-01-01"},
	}))
	out := f.ask(object{"query": "harbour", "as_of": "2019-12-31T23:59:59Z", "filter": object{"document_prefix": "a"}})
	require.NotNil(t, out.Reason)
	assert.Equal(t, "no_document", *out.Reason)
	assert.Equal(t, `No document is left by filter, without and as_of. Each part alone leaves: document_prefix "a": 1 of 3; `+
		"as_of 2019-12-31T23:59:59Z: 0 of 3.", out.ReasonText)
	for _, wrong := range []any{"soon", "2026-02-30", "", "0001-01-01", 2026, object{}} {
		status, body, _ := f.do("POST", sampleQuery, object{"query": "harbour", "as_of": wrong})
		assert.True(t, status == 422 || status == 400, "%v: %d %v", wrong, status, body)
		assert.Contains(t, fmt.Sprint(body), "as_of", "%v", wrong)
	}
	session := f.agent("")
	_, given, failed := call(t, session, "search", object{"query": "harbour office", "as_of": "2020-06-01"})
	assert.True(t, !failed && len(given["passages"].([]any)) == 2, "%v", given)
	chat := object{"model": "unweaver/sample", "messages": []any{object{"role": "user", "content": "harbour office"}}}
	chat["unweaver"] = object{"as_of": "2019-01-01"}
	_, said, _ := f.do("POST", "/v1/chat/completions", chat)
	assert.Contains(t, fmt.Sprint(said), "No document is left by", "%v", said)
}

// A search for a night pays for its question once.
func TestANightIsFoundForOneEmbedding(t *testing.T) {
	var calls atomic.Int64
	f := serve(t, func(f *fixture, config *api.Config) {
		for i, documents := range [][]retrievetest.Document{retrievetest.Sample(), retrievetest.Sample()[1:]} {
			built := retrievetest.Build(f.t, f.stores, "docs", documents, retrievetest.Options{
				Generation: []string{"n1", "n2"}[i], Seq: int64(i + 1), Unasked: true,
				Edit: func(m *core.Manifest) { m.Class.IDF, m.Chunk.IDF = "", "" }, // as by a server
			})
			retrievetest.Publish(f.t, built, int64(i+1))
		}
		config.Models = models{embedder: func(inner model.Embedder) model.Embedder {
			return counted{sellingEmbedder{inner}, &calls}
		}}
	})
	expect := retrievetest.Sample()[0].Key
	var got bisect.Found
	f.asked("/v1/indexes/docs/bisect", object{"query": "What is Bergen?", "expect": expect, "top_chunks": 100}, &got)
	assert.True(t, got.Bad.Generation == "n2" && got.Causes[0].Confirmed && got.Tokens == 5, "%+v", got)
	assert.EqualValues(t, 1, calls.Load())
	for index, status := range map[string]int{"docs": 422, "none": 404} {
		f.refuse(status, "", "POST", "/v1/indexes/"+index+"/bisect", object{"query": "?", "expect": expect, "from": "n2"})
	}
}
