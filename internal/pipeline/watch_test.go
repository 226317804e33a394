package pipeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	answering "github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// watching adds standing questions.
func (s *site) watching(t *testing.T, questions ...core.Question) (ids []string) {
	require.NoError(t, s.index().ChangeQuestions(t.Context(), func(list []core.Question) ([]core.Question, error) {
		for _, question := range questions {
			kept := must(question.Normalize())(t)
			list, ids = append(list, kept), append(ids, kept.ID)
		}
		return list, nil
	}))
	return ids
}

// changes reads all changes that the last night found, by ids.
func (s *site) changes(t *testing.T) map[string]core.WatchedChange {
	out := map[string]core.WatchedChange{}
	found := s.report(t).Watched
	require.NotNil(t, found)
	if found.Changed == 0 {
		return out
	}
	raw, _ := must2(blob.Read(t.Context(), s.Artifacts, found.Path))(t)
	for line := range bytes.Lines(raw) {
		var change core.WatchedChange
		require.NoError(t, json.Unmarshal(line, &change))
		out[change.ID] = change
	}
	require.Len(t, out, found.Changed)
	return out
}

// passagesOf returns what a query gets of a generation for a question, in order.
func (s *site) passagesOf(t *testing.T, from *retrieve.Generation, question core.Question) (out []*liveset.Chunk) {
	searcher := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records, Methods: methods.Registry()}
	view := must(from.View(t.Context(), core.ReadersOf(question.Labels)))(t)
	service := answering.New(testModels{}, searcher, slog.New(slog.DiscardHandler))
	got := must(service.Ask(t.Context(), view, answering.Request{
		Query: question.Question,
	}, freeCaller{}, nil))(t)
	for _, chunk := range got.Chunks {
		out = append(out, view.Live.FindChunk(must(core.ParseID(chunk.ID))(t)))
	}
	return out
}

// Over random nights the questions whose passages changed are those that asking all of them by queries finds, though
// not all are asked.
// Promises: 171.
func TestANightFindsTheChangesThatAskingAllQuestionsFinds(t *testing.T) {
	isSame := func(a, b *liveset.Chunk) bool { return a.ID == b.ID || a.Digest == b.Digest } // it was renamed
	skipped, changed := 0, 0
	for seed := range uint64(longtest.Count(2, 12)) {
		h := labelled{newHistory(t, rand.New(rand.NewPCG(seed, 40)), 0)}
		h.spec.Documents = &core.Documents{Labels: core.Labels{Field: "labels", Rules: []string{"salt/**=legal", "**=public"}}}
		for range 14 {
			h.add(t)
			key := h.keys()[h.random.IntN(len(h.files))]
			h.relabel(t, key, h.files[key])
		}
		var asked []core.Question
		h.spec.Retrieval.Method = []string{"vector", "unweaver", "ppr", "bm25"}[seed%4]
		for i := range 5 {
			for _, labels := range [][]string{nil, {"hr"}, {"board", "legal"}, {core.AnyLabel}} {
				text := fmt.Sprintf("%s And %d?", questionOf(h.random), i)
				asked = append(asked, must(core.Question{Question: text, Labels: labels}.Normalize())(t))
			}
		}
		h.watching(t, asked...)
		h.night(t)
		require.Zero(t, h.report(t).Watched.Asked, "there is nothing to compare with")
		for night := range 5 {
			former, served := openGeneration(t, h.site), h.pointer(t).Generation
			if night%2 == 0 { // of documents that few may read
				h.put(t, "hr/only.md", "---\nlabels: ["+[]string{"hr", "board", "hr"}[night/2]+"]\n---\n"+h.document())
			} else {
				h.change(t)
			}
			if h.night(t); h.pointer(t).Generation == served {
				former.Close()
				continue
			}
			now, want := openGeneration(t, h.site), map[string]bool{}
			for _, question := range asked {
				if !slices.EqualFunc(h.passagesOf(t, former, question), h.passagesOf(t, now, question), isSame) {
					want[question.ID] = true
				}
			}
			found := h.report(t).Watched
			changes := h.changes(t)
			for _, change := range changes { // nothing is shown of a document that who asks may not read any more
				view := must(now.View(t.Context(), core.ReadersOf(change.Labels)))(t)
				require.False(t, now.Live.FindDocument("hr/only.md") >= 0 && view.Live.FindDocument("hr/only.md") < 0 &&
					change.Names(func(document string) bool { return document == "hr/only.md" }), "%+v", change)
			}
			got := slices.Sorted(maps.Keys(changes))
			require.Equal(t, slices.Sorted(maps.Keys(want)), got, "seed %d, night %d: %+v", seed, night, found)
			require.Equal(t, len(asked), found.Asked+found.Same, "%+v", found)
			skipped, changed = skipped+found.Same, changed+len(got)
			former.Close()
			now.Close()
		}
	}
	require.True(t, skipped > 0 && changed > 0, "%d were not asked, %d changed", skipped, changed)
}

// A change is reported once with both answers and the document that caused it, also where the generation in between was
// rolled back, and what could not be asked is asked by the next night.
// Promises: 171.
func TestAChangeIsReportedOnceWithItsCause(t *testing.T) {
	s := newSite(t, sample(8))
	s.spec.Retrieval.Method = "bm25"
	ask := func(place int) core.Question {
		return core.Question{Question: fmt.Sprintf("Who built the harbour of Port Alma %d?", place)}
	}
	ids := s.watching(t, ask(1), ask(2), core.Question{Question: "Who owns the bridge of Osk?"})
	s.night(t)
	causes := func() map[string]string {
		out := map[string]string{}
		for id, change := range s.changes(t) {
			for _, one := range change.Because {
				out[id] += one.Change + " " + one.Object + ";"
			}
		}
		return out
	}
	s.write(t, map[string]string{"place-001.md": "# Harbour 1\n\nThe harbour of Port Alma 1 was built by Jan Novak.\n"})
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-002.md")))
	s.write(t, map[string]string{"osk.md": "# Osk\n\nThe bridge of Osk: Greta Lind owns the bridge of Osk.\n"})
	s.night(t)
	found := causes()
	assert.Contains(t, found[ids[0]], "changed place-001.md")
	assert.Contains(t, found[ids[1]], "removed place-002.md")
	assert.Contains(t, found[ids[2]], "added osk.md")
	first := s.changes(t)[ids[0]]
	assert.True(t, strings.Contains(first.Before.Quote, "Carla Ruiz") && strings.Contains(first.After.Quote, "Jan Novak") &&
		first.After.Passages[0].Document == "place-001.md", "%+v", first)
	require.NoError(t, os.Rename(filepath.Join(s.corpus, "place-003.md"), filepath.Join(s.corpus, "place-003b.md")))
	s.night(t)
	watched := s.report(t).Watched
	assert.True(t, watched.Asked == 3 && watched.Changed == 0, "a renamed document counts as another: %+v", watched)
	must(s.act(t, core.ActionRollback, "g001"))(t)
	s.write(t, map[string]string{"far.md": "# Far\n\nNothing of this is asked.\n"})
	s.night(t) // built from g001, and what questions were asked of last is g003
	assert.True(t, s.report(t).Watched.Since == "g003" && s.report(t).Watched.Asked == 3, "%+v", s.report(t).Watched)
}

// What keeps questions from being asked is a problem of the run, and the next night compares with what they were asked
// of last. A repeated attempt comes to the same as the first, and asks nothing once that was kept.
// Promises: 171.
func TestAskingGoesOnAfterWhatInterruptsIt(t *testing.T) {
	s := newSite(t, sample(8))
	s.spec.Retrieval.Method = "bm25"
	s.watching(t, core.Question{Question: "Who built Osk?"}, core.Question{Question: "Who owns the bridge of Osk?"})
	build := func(owner string, died bool) *core.Watched {
		text := "# Osk\n\nThe bridge of Osk: " + owner + " built and owns the bridge of Osk.\n"
		s.write(t, map[string]string{"osk.md": text})
		before := must(s.index().ReadLastWatch(t.Context()))(t)
		job, holder := s.leased(t)
		must(s.stages(t.Context(), job, holder))(t)
		first := s.report(t).Watched
		if died { // before it kept what it found
			require.NoError(t, s.index().WriteLastWatch(t.Context(), before))
		}
		s.WatchTime = 0
		require.NoError(t, s.collect(t.Context(), job, holder))
		require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: core.StatusCompleted}))
		found := s.report(t).Watched
		first.Seconds, found.Seconds = 0, 0
		assert.Equal(t, first, found, "a repeated attempt finds something else")
		return found
	}
	build("Tom", false)
	s.WatchTime = -1
	found := build("Ada", false)
	assert.True(t, found.Failed == 2 && found.Asked == 0 && found.Code == string(fault.Timeout), "%+v", found)
	found = build("Eva", true)
	assert.True(t, found.Since == "g001" && found.Asked == 2 && found.Changed == 2 && len(found.Listed) == 2 &&
		found.Failed == 0, "%+v", found)
	last := must(s.index().ReadLastWatch(t.Context()))(t)
	last.Manifest = strings.Repeat("0", 64)
	require.NoError(t, s.index().WriteLastWatch(t.Context(), last))
	found = build("Ivo", true)
	assert.True(t, found.Failed == 2 && strings.Contains(found.Problem, "2 questions are not compared"), "%+v", found)
	assert.Equal(t, 2, build("Ulf", false).Changed)
}

// What a question costs is in the account of the night that pays for it.
// Promises: 171.
func TestTheAccountOfANightHasItsStandingQuestions(t *testing.T) {
	var paid []int64
	for _, questions := range [][]core.Question{nil, {{Question: "Where does the ferry go?"}}} {
		s := newPaidSite(t, 6, calm)
		s.night(t)
		s.watching(t, questions...)
		s.changed(t)
		paid = append(paid, s.report(t).Tokens.Embedding)
	}
	assert.Greater(t, paid[1], paid[0])
}

// The vector of a question is paid for once, and the ledger keeps it. What is purged leaves the reports.
// Promises: 171.
func TestAStandingQuestionIsPaidOnceAndForgetsWhatIsPurged(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	const question = "Who built the harbour of Port Alma 3?"
	s.watching(t, core.Question{Question: question}, core.Question{Question: "Who owns Osk?", Labels: []string{"hr"}})
	s.night(t)
	sold.refuse = func(texts []string) bool { return slices.Contains(texts, question) }
	s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nThe harbour of Port Alma 3 was built by Omar Haddad.\n"})
	s.night(t)
	report := s.report(t)
	assert.True(t, report.Watched.Asked == 1 && report.Watched.Failed == 1 && report.Watched.Code == "model_auth" &&
		strings.Contains(report.Watched.Problem, question) && report.Published, "%+v", report.Watched)
	tries := 0
	sold.code = fault.ModelUnavailable
	sold.refuse = func(texts []string) bool {
		isQuestion := slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, "Who ") })
		if isQuestion {
			tries++
		}
		return isQuestion
	}
	s.watching(t, core.Question{Question: "Who signed?", Labels: []string{"board"}}, core.Question{Question: "Who paid?"})
	s.changed(t)
	told := s.report(t).Watched.Failed
	assert.True(t, tries <= 4 && told == 4, // one batch, with its retries
		"a dead embedder was called %d times, %d questions failed", tries, told)
	sold.refuse = nil
	s.changed(t)
	assert.Equal(t, "g001", s.report(t).Watched.Since, "what could not be asked is compared with what was asked last")
	s.changed(t)
	assert.True(t, sold.texts[question] == 1 && s.report(t).Watched.Asked == 4, "paid %d times", sold.texts[question])
	assert.NotEmpty(t, must(s.index().ReadLastWatch(t.Context()))(t).Keys, "the ledger is not told to keep the vector")

	s.purge(t, "place-003.md")
	require.Equal(t, core.StatusCompleted, s.night(t).published.Status)
	for info := range musttest.All(t, s.Artifacts.List(t.Context(), s.spec.Index+"/", "")) {
		name := filepath.Base(info.Key)
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, info.Key))(t)
		assert.False(t, (name == artifact.WatchedName || name == "report.json") && bytes.Contains(raw, []byte("place-003.md")),
			"%s still names the purged document", info.Key)
	}
}

// A night whose changes no reader of a question sees asks nothing, also where the embedder is paid.
// Promises: 171.
func TestQuestionsWhoseReadersSeeNothingNewCostNothing(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	s.spec.Documents = &core.Documents{Labels: core.Labels{Rules: []string{"hr/**=hr", "**=public"}}}
	s.watching(t, core.Question{Question: "Who built the harbour of Port Alma 3?"})
	s.night(t)
	s.write(t, map[string]string{"hr/pay.md": "# Pay\n\nZelda Quark earns 900 crowns at Port Alma.\n"})
	s.night(t)
	watched := s.report(t).Watched
	assert.True(t, watched != nil && watched.Same == 1 && watched.Failed == 0, "%+v", watched)
	assert.Zero(t, sold.texts["Who built the harbour of Port Alma 3?"])
}

// Reports are read by everybody once documents have no labels: they say nothing of one that went while they had.
func TestNothingOfALabelledDocumentIsReportedOnceLabelsAreOff(t *testing.T) {
	s := newSite(t, sample(8))
	s.spec.Retrieval.Method, s.spec.Gate.MaxRemoved = "bm25", 1
	s.spec.Documents = &core.Documents{Labels: core.Labels{Rules: []string{"hr/**=hr", "**=public"}}}
	s.write(t, map[string]string{"hr/pay.md": "# Pay\n\nZelda Quark earns 900 crowns at Port Alma.\n"})
	id := s.watching(t, core.Question{Question: "What does Zelda Quark earn at Port Alma?", Labels: []string{"hr"}})[0]
	s.night(t)
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "hr/pay.md")))
	s.spec.Documents = nil
	require.Equal(t, publish.LabelsOff, s.night(t).published.Reason)
	must(s.act(t, core.ActionPublish, "g002"))(t)
	s.changed(t)
	change, found := s.changes(t)[id]
	require.True(t, found, "the question is not compared")
	raw := string(must(json.Marshal(change))(t))
	assert.NotContains(t, raw, "hr/pay.md")
	assert.NotContains(t, raw, "900 crowns")
}
