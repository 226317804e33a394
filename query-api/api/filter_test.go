package api_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
