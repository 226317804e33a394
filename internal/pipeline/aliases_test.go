package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text/names"
)

// aliased has the configuration name a file of aliases with this content; empty: none.
func (s *site) aliased(t *testing.T, content string) {
	s.spec.Aliases = ""
	if content == "" {
		return
	}
	sum := must(artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.PutAliases(t.Context(), []byte(content)))(t)
	s.spec.Aliases = core.SentFile + sum
}

// fromNothingAliased does what fromNothing does, with a file of aliases.
func (s *site) fromNothingAliased(t *testing.T, content string) *core.Manifest {
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
		assert.Contains(t, fmt.Sprint(s.report(t).Reasons), step.changed, "step %d: the reasons", n)
		paid := sold.since(before)
		assert.True(t, paid["extract"] <= 0, "step %d: %d extractions were paid for", n, paid["extract"])
		want := s.fromNothingAliased(t, step.file)
		assert.True(t, night.Hashes == want.Hashes && night.Counts.Classes == want.Counts.Classes,
			"step %d: %+v, from nothing %+v", n, night.Hashes, want.Hashes)
		table := must(segments.OpenTable(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), night))(t)
		_, counts := table.FindClass(class(step.gone))
		assert.True(t, !counts || step.gone == "", "step %d: %s has a class of its own", n, step.gone)
		_, counts = table.FindClass(class(step.kept))
		assert.True(t, counts, "step %d: %s has no class", n, step.kept)
		table.Release()
		again := s.night(t)
		assert.True(t, again.planned.Unchanged,
			"step %d: the night that follows is not unchanged: %v", n, s.report(t).Reasons)
		// Documents that change and go afterwards know of the aliases, too.
		if n == 1 {
			s.write(t, map[string]string{"more.md": "# Port Alma 3\n\nThe mole of Port Alma 3 was raised by Nowhere.\n"})
			require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
			s.spec.Gate.MaxRemoved = 1
			night, want := s.night(t).manifest, s.fromNothingAliased(t, step.file)
			assert.True(t, night.Hashes == want.Hashes, "after more changes: %+v, from nothing %+v", night.Hashes, want.Hashes)
		}
	}
	assert.True(t, plain.Aliases == nil && s.current(t).Aliases == nil, "a generation without aliases lists some")
}

// A file of aliases that cannot be read ends the run before anything is paid for, and names the line.
func TestBadAliasesEndTheRunBeforeItPays(t *testing.T) {
	for content, why := range map[string]string{
		"pin A | B\npin B | A\n": "circle", "pin A | B\nforbid B | A\n": "forbidden",
		"pin A | B\n\nmerge A and B": "line 3", "pin A |\n": "line 1", "pin A | B\npin A | C\n": "two names",
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

// Names of the same letters are suggested, numbers apart are refused, and what a file pins or forbids is not suggested
// any more; a night with the suggestions as its file has them mapped.
func TestAliasesAreSuggestedAndListed(t *testing.T) {
	files := sample(6)
	files["a.md"] = "# Places\n\nThe mole of Lake Verin was raised by Carla Ruiz. The tower was built by CarlaRuiz.\n"
	s := newSite(t, files)
	asked := func(suggest *pairstage.Suggest) core.AliasList {
		return must(pairstage.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, suggest))(t)
	}
	_, err := pairstage.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, nil)
	assert.True(t, fault.Is(err, fault.UnknownGen), "before the first night: %v", err)
	s.night(t)
	find := func(list core.AliasList, name string) (found core.SuggestedOne) {
		for _, one := range list.Suggested {
			if one.Name == name && one.Refused == "" {
				found = one
			}
		}
		return found
	}
	suggest := pairstage.Suggest{Classes: 1000, Refused: true, Cosine: 0.5}
	plain := asked(&suggest)
	if one := find(plain, "CarlaRuiz"); one.Of != "Carla Ruiz" || !one.Spelled || one.Cosine < -1 || one.Cosine > 1.001 {
		t.Errorf("suggested %+v of %+v", one, plain)
	}
	assert.True(t, plain.Searched.Refused[aliases.WhyNumbers] != 0 && int64(plain.Searched.Classes) == plain.Searched.Of,
		"searched %+v", plain.Searched)
	for _, one := range plain.Suggested {
		assert.True(t, one.Refused != "" || !strings.HasPrefix(one.Name, "Port Alma"), "%+v is suggested", one)
	}
	again := asked(&suggest)
	assert.True(t, slices.Equal(again.Suggested, plain.Suggested), "asked again: %+v", again.Suggested)
	for _, line := range []string{"pin CarlaRuiz | Carla Ruiz\n", "forbid carla ruiz | CarlaRuiz\n"} {
		suggest.File = []byte(line)
		assert.Empty(t, find(asked(&suggest), "CarlaRuiz").Name, "with %q", line)
	}
	suggest.File, suggest.Classes = nil, 2
	few := asked(&suggest)
	assert.True(t, few.Searched.Classes == 2, "of two classes: %+v", few.Searched)
	s.aliased(t, "pin CarlaRuiz | Carla Ruiz\n")
	s.night(t)
	if list := asked(nil); !slices.Equal(list.Aliases, []core.MappedName{{Name: "carlaruiz", StandsFor: "carla ruiz"}}) {
		t.Errorf("listed %+v", list)
	}
}

// pairJudge extracts by rule, says of pairs with Carla that they are the same, and is paid for.
type pairJudge struct {
	builtin.Chat
	bill *judged
}

// judged is what was paid for pairs.
type judged struct {
	mu    sync.Mutex
	asked map[string]int
}

func (j *judged) calls() (all, twice int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.asked {
		all += n
		twice += n - 1
	}
	return all, twice
}

func (p pairJudge) Info() model.Info { return model.Info{Provider: "test", Model: "judge", Paid: true} }

func (p pairJudge) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task != model.Pairs {
		return p.Chat.Complete(ctx, call)
	}
	p.bill.mu.Lock()
	defer p.bill.mu.Unlock()
	p.bill.asked[call.User]++
	if strings.Contains(call.User, "CarlaRuiz") {
		return model.Reply{Text: `{"same":true,"why":"one spelling"}`}, nil
	}
	return model.Reply{Text: `{"same":false,"why":"two things"}`}, nil
}

// pairSite has a model decide pairs of names.
func pairSite(t *testing.T, documents int) (*site, *judged) {
	files := sample(documents)
	if documents > 0 {
		files["a.md"] = "# Places\n\nThe mole of Lake Verin was raised by Carla Ruiz. The tower was built by CarlaRuiz.\n"
	}
	s, bill := newSite(t, files), &judged{asked: map[string]int{}}
	s.spec.Enrich = []string{aliases.Enrichment}
	enrich.SetSettings(&s.spec, aliases.Enrichment,
		aliases.Settings{Ask: 1000, Classes: 1000, Cosine: 0.2}, aliases.DefaultSettings)
	s.spec.Embedding.Dimension = 8
	s.Models = func(_ core.Spec, meter model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: model.MeterChat(pairJudge{bill: bill}, meter), Classes: embedder, Chunks: embedder}, nil
	}
	return s, bill
}

func TestAModelDecidesPairsOfNamesAndNightsAskForNewOnes(t *testing.T) {
	s, bill := pairSite(t, 12)
	s.spec.Enrich = nil
	plain := s.night(t).manifest
	s.spec.Enrich = []string{aliases.Enrichment}
	s.night(t)
	first := s.current(t)
	made := first.Enrichment(aliases.Enrichment)
	require.True(t, made != nil && made.Counts["asked"] >= 2 && made.Counts["same"] == 1 && made.Models == "test:judge" &&
		made.Counts["different"] == made.Counts["asked"]-1 && first.Hashes == plain.Hashes, "%+v", made)
	all, twice := bill.calls()
	assert.True(t, int64(all) == made.Counts["asked"] && twice == 0, "%d calls of %+v", all, made.Counts)
	assert.True(t, s.night(t).planned.Unchanged, "the same is made again")
	before, _ := bill.calls()
	s.write(t, map[string]string{"b.md": "# Quay\n\nThe quay of Lake Verin was paid by Nora Zell. Norazell was born in Bern.\n"})
	s.remove(t, "place-003.md")
	s.night(t)
	night := s.current(t)
	all, twice = bill.calls()
	if asked := night.Enrichment(aliases.Enrichment).Counts["asked"]; all == before || int64(all-before) >= asked || twice != 0 {
		t.Errorf("a night pays for %d of %d pairs, %d twice", all-before, asked, twice)
	}
	fresh, _ := pairSite(t, 0)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	fresh.night(t)
	from := fresh.current(t)
	file := func(m *core.Manifest) string { return m.Segments.FilesOf(aliases.Enrichment, pairstage.Kind)[0].SHA256 }
	ofNight, ofNothing := night.Enrichment(aliases.Enrichment), from.Enrichment(aliases.Enrichment)
	assert.True(t, ofNight.Hash == ofNothing.Hash && file(night) == file(from),
		"%+v, from nothing %+v", ofNight, ofNothing)
	enrich.SetSettings(&s.spec, aliases.Enrichment,
		aliases.Settings{Ask: 1, Classes: 1000, Cosine: 0.2}, aliases.DefaultSettings)
	out := s.night(t)
	reasons := strings.Join(s.report(t).Reasons, " ")
	got := out.manifest.Enrichment(aliases.Enrichment).Counts["asked"]
	assert.True(t, got == 1 && strings.Contains(reasons, "pairs.ask 1000 → 1"), "%d asked, %q", got, reasons)
	now, _ := bill.calls()
	assert.True(t, now == all, "%d calls for pairs that were asked for before", now-all)
}

// What was decided comes with what is suggested: the same first, and what is different last.
func TestDecisionsComeWithSuggestions(t *testing.T) {
	s, _ := pairSite(t, 6)
	s.night(t)
	list, err := pairstage.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors,
		&pairstage.Suggest{Classes: 1000, Cosine: 0.2})
	require.True(t, err == nil && len(list.Suggested) >= 2 && len(list.Decided) == len(list.Suggested),
		"%+v, %v", list, err)
	first, last := list.Suggested[0], list.Suggested[len(list.Suggested)-1]
	assert.True(t, first.Name == "CarlaRuiz" && first.Verdict == pairstage.Same && first.Why == "one spelling" &&
		last.Verdict == pairstage.Different, "%+v to %+v", first, last)
	list, err = pairstage.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, nil)
	assert.True(t, err == nil && len(list.Decided) >= 2 && len(list.Suggested) == 0, "%+v, %v", list, err)
}

// Rows that the store of vectors has lost, and a damaged file of the generation before, make no difference.
func TestPairsComeToTheSameWhateverWasLost(t *testing.T) {
	whole, _ := pairSite(t, 8)
	whole.night(t)
	more := map[string]string{"b.md": "# Quay\n\nThe quay of Lake Verin was paid by Nora Zell. Norazell was born in Bern.\n"}
	whole.write(t, more)
	whole.night(t)
	want := whole.current(t).Enrichment(aliases.Enrichment)
	for damage, do := range damages {
		s, _ := pairSite(t, 8)
		s.night(t)
		sha := s.current(t).Segments.FilesOf(aliases.Enrichment, pairstage.Kind)[0].SHA256
		do(t, s.Artifacts, s.index().SegmentKey(sha))
		s.Cache.Drop(sha)
		s.write(t, more)
		s.before = func(stage string) {
			if stage != "enrich" {
				return
			}
			manifest := s.current(t)
			table := must(segments.OpenClasses(t.Context(), s.Cache, s.index(), manifest))(t)
			defer table.Release()
			var keys []string
			for id, class := range table.ClassesIn("", "") {
				keys = append(keys, core.ClassRowOf(id, class.Vector))
			}
			err := s.Vectors.Delete(t.Context(), manifest.Collections.Classes, keys)
			require.True(t, err == nil && len(keys) >= 9, "%d keys, %v", len(keys), err)
		}
		s.night(t)
		assert.Equal(t, want, s.current(t).Enrichment(aliases.Enrichment), "%s", damage)
	}
}
