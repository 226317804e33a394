package retrieve_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// BenchmarkFilterAtS looks at each of 94,500 documents of one passage, a tenth of which the filters leave in.
func BenchmarkFilterAtS(b *testing.B) {
	set := documentsAtS(b, 94_500, nil)
	for _, one := range filtersAtS(b) {
		b.Run(one.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				retrieve.CountAllowed(retrieve.GenerationOf(set), one.filter)
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// Verdicts are those of their filter alone, and of the last filters.
func TestVerdictsAreThoseOfTheirFilter(t *testing.T) {
	set := documentsAtS(t, 500, nil)
	generation, filters := retrieve.GenerationOf(set), filtersAtS(t)
	yes := true
	for i := range 20 {
		one := retrieve.Condition{Field: "kind", In: retrieve.NewValues([]string{fmt.Sprintf("kind%d", i)})}
		if i%2 > 0 {
			one = retrieve.Condition{Field: "kind", Not: one.In, Exists: &yes}
		}
		filter := retrieve.Filter{Metadata: []retrieve.Condition{one}, Prefix: fmt.Sprintf("000%d", i%3)}
		filters = append(filters, filterAtS{fmt.Sprint(i), filter},
			filterAtS{fmt.Sprint("or ", i), retrieve.Filter{Any: []retrieve.Filter{filter, {Prefix: "0004"}}}})
	}
	for range 2 {
		for _, one := range filters {
			want := retrieve.CountAllowed(retrieve.GenerationOf(set), one.filter)
			assert.Equal(t, want, retrieve.CountAllowed(generation, one.filter), one.name)
			assert.Equal(t, want, retrieve.CountAllowed(generation, one.filter), "%s again", one.name)
		}
	}
	assert.Equal(t, 16, retrieve.CountKept(generation))
	generation = retrieve.GenerationOf(set)
	for _, text := range []string{"2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", "2025-12-31T23:00:00-01:00"} {
		at, _ := retrieve.ParseScalar(text)
		one := retrieve.Condition{Field: "kind", Bounds: []retrieve.Bound{retrieve.NewBound("gte", at)}}
		retrieve.CountAllowed(generation, retrieve.Filter{Metadata: []retrieve.Condition{one}})
	}
	assert.Equal(t, 1, retrieve.CountKept(generation))
}

type filterAtS struct {
	name   string
	filter retrieve.Filter
}

// documentsAtS opens so many documents with four fields each.
func documentsAtS(b testing.TB, documents int, add func(i int, meta map[string]string)) *liveset.Set {
	b.Helper()
	class := core.ID{1}
	writer, run := split.NewWriter(), classrun.NewWriter()
	defer writer.Close()
	defer run.Close()
	for i := range documents {
		meta := map[string]string{
			"kind": fmt.Sprintf("kind%d", i%10), "author": fmt.Sprintf("Author %d", i%300), "year": fmt.Sprint(1990 + i%40),
			"signed": time.Date(1990, 1, 1+i%14_600, 0, 0, 0, 0, time.UTC).Format(time.DateOnly),
		}
		if add != nil {
			add(i, meta)
		}
		require.NoError(b, writer.BeginDocument(split.Row{Key: fmt.Sprintf("%06d.md", i), Meta: meta}))
		id := core.ID{2, byte(i >> 16), byte(i >> 8), byte(i)}
		require.NoError(b, writer.AddChunk(split.Chunk{ID: id}, nil))
		require.NoError(b, writer.AddMention(class, uint32(i), 0))
	}
	require.NoError(b, run.Add(classrun.Row{ID: class}, "name", "", nil))
	var raw, rawRun bytes.Buffer
	expect, err := writer.Write(&raw, "v1", "en")
	require.NoError(b, err)
	opened, err := split.Open(scratchtest.WriteFile(b, raw.Bytes()), expect)
	require.NoError(b, err)
	b.Cleanup(opened.Close)
	expectRun, err := run.Write(&rawRun, "v1", "en")
	require.NoError(b, err)
	openedRun, err := classrun.Open(scratchtest.WriteFile(b, rawRun.Bytes()), expectRun)
	require.NoError(b, err)
	b.Cleanup(openedRun.Close)
	alive := func(int) bool { return false }
	set, err := liveset.New(b.Context(), "test", []liveset.Split{{File: opened, Dead: alive}},
		[]liveset.Run{{File: openedRun, Dead: alive}})
	require.NoError(b, err)
	return set
}

func filtersAtS(b testing.TB) []filterAtS {
	b.Helper()
	bound := func(operator, text string) retrieve.Bound {
		at, ok := retrieve.ParseScalar(text)
		require.True(b, ok)
		return retrieve.NewBound(operator, at)
	}
	one := func(condition retrieve.Condition) retrieve.Filter {
		return retrieve.Filter{Metadata: []retrieve.Condition{condition}}
	}
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf("Author %d, and %d", i*10, i)
	}
	either := retrieve.Filter{}
	for i := range 100 {
		either.Any = append(either.Any, one(retrieve.Condition{
			Field: "signed", Bounds: []retrieve.Bound{bound("lt", fmt.Sprintf("18%02d-01-01", i))},
		}))
	}
	return []filterAtS{
		{"equality", one(retrieve.Condition{Field: "kind", In: retrieve.NewValues([]string{"kind3"})})},
		{"numbers", one(retrieve.Condition{Field: "year", Bounds: []retrieve.Bound{bound("gte", "2026")}})},
		{"dates", one(retrieve.Condition{
			Field: "signed", Bounds: []retrieve.Bound{bound("gte", "2026-01-01"), bound("lte", "2029-12-31")},
		})},
		{"10,000 values", one(retrieve.Condition{Field: "author", In: retrieve.NewValues(many)})},
		{"or of 100", either},
	}
}
