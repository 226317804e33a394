package pipeline_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/text/names"
)

// aliased has the configuration name a file of aliases with this content; empty: none.
func (s *site) aliased(t *testing.T, content string) {
	t.Helper()
	s.spec.Aliases = ""
	if content == "" {
		return
	}
	sum, err := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.PutAliases(t.Context(), []byte(content))
	require.NoError(t, err)
	s.spec.Aliases = core.SentFile + sum
}

// fromNothingAliased does what fromNothing does, with a file of aliases.
func (s *site) fromNothingAliased(t *testing.T, content string) *core.Manifest {
	t.Helper()
	fresh := newSite(t, nil)
	fresh.corpus = s.corpus
	fresh.spec, fresh.Models = s.spec, (&shop{sold: map[string]int{}}).models
	fresh.aliased(t, content)
	return fresh.night(t).manifest
}

// Names that people say are one are one class, in the nights that follow a change of what they say, with nothing but
// the documents that have such names; each night comes to what a build from nothing comes to, and without the file to
// what there was.
func TestAliasesMakeOneClassOfNames(t *testing.T) {
	const documents = 40
	s, sold := newSite(t, sample(documents)), &shop{sold: map[string]int{}}
	s.Models = sold.models
	s.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
	s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
	plain := s.night(t).manifest
	class := func(name string) core.ID { return core.ClassID(names.Key(name, false)) }
	steps := []struct {
		file    string
		changed string // what the reasons say
		gone    string // a name that has no class of its own
		kept    string
	}{
		{"pin Port Alma 3 | Port Alma 4\nforbid Port Alma 5 | Port Alma 6\n", "1 names", "Port Alma 3", "Port Alma 4"},
		{"pin Port Alma 3 | Port Alma 4\npin Port Alma 4 | Port Alma 9\npin Nowhere | Elsewhere\n", "3 names", "Port Alma 4",
			"Port Alma 9"},
		{"pin Harbour 7 | Harbour 8\nprefer Harbour 7\n", "4 names", "Harbour 8", "Harbour 7"},
		{"", "1 names", "", "Harbour 8"},
	}
	for n, step := range steps {
		before := maps.Clone(sold.sold)
		s.aliased(t, step.file)
		restart(s)
		night := s.night(t).manifest
		reasons := fmt.Sprint(s.report(t).Reasons)
		assert.Contains(t, reasons, step.changed, "step %d: the reasons", n)
		paid := sold.since(before)
		assert.True(t, paid["extract"] <= 0, "step %d: %d extractions were paid for", n, paid["extract"])
		want := s.fromNothingAliased(t, step.file)
		assert.True(t, night.Hashes == want.Hashes && night.Counts.Classes == want.Counts.Classes,
			"step %d: %+v, from nothing %+v", n, night.Hashes, want.Hashes)
		table, err := segments.OpenTable(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), night)
		require.NoError(t, err)
		_, counts := table.FindClass(class(step.gone))
		assert.True(t, !counts || step.gone == "", "step %d: %s has a class of its own", n, step.gone)
		_, counts = table.FindClass(class(step.kept))
		assert.True(t, counts, "step %d: %s has no class", n, step.kept)
		table.Release()
		again := s.night(t)
		if !again.planned.Unchanged {
			t.Errorf("step %d: the night that follows is not unchanged: %v", n, s.report(t).Reasons)
		}
		// Documents that change and go afterwards know of the aliases, too.
		if n == 1 {
			s.write(t, map[string]string{"more.md": "# Port Alma 3\n\nThe mole of Port Alma 3 was raised by Nowhere.\n"})
			require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
			s.spec.Gate.MaxRemoved = 1
			if night, want := s.night(t).manifest, s.fromNothingAliased(t, step.file); night.Hashes != want.Hashes {
				t.Errorf("after more changes: %+v, from nothing %+v", night.Hashes, want.Hashes)
			}
		}
	}
	assert.True(t, plain.Aliases == nil && s.current(t).Aliases == nil, "a generation without aliases lists some")
}

// A file of aliases that cannot be read ends the run before anything is paid for, and names the line.
func TestBadAliasesEndTheRunBeforeItPays(t *testing.T) {
	for content, why := range map[string]string{
		"pin A | B\npin B | A\n":       "circle",
		"pin A | B\nforbid B | A\n":    "forbidden",
		"pin A | B\n\nmerge A and B":   "line 3",
		"pin A |\n":                    "line 1",
		"pin A | B\npin A | C\n":       "two names",
		strings.Repeat("#", 5_000_000): "bytes",
	} {
		s, sold := newSite(t, sample(3)), &shop{sold: map[string]int{}}
		s.Models = sold.models
		s.aliased(t, content)
		job, holder := s.leased(t)
		_, err := s.stages(t.Context(), job, holder)
		assert.True(t, err != nil && strings.Contains(err.Error(), why) && strings.Contains(err.Error(), "read aliases"),
			"%.30q: %v", content, err)
		assert.True(t, len(sold.sold) == 0, "%.30q: %v were paid for", content, sold.sold)
	}
}
