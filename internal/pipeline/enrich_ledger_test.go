package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/collect"
)

// asker answers what enrichments ask, too: a question has the first words of its text.
type asker struct{ chat }

func (a asker) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if call.Task == model.Pairs {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls[model.Pairs]++
		return model.Reply{Text: `{"same":false,"why":"two things"}`, Usage: model.Usage{Prompt: 10, Completion: 5}}, nil
	}
	if !strings.Contains(string(call.Schema), `"questions"`) {
		return a.chat.Complete(ctx, call)
	}
	a.mu.Lock()
	a.calls["questions"]++
	a.mu.Unlock()
	words := strings.Fields(call.Input)
	raw, err := json.Marshal(map[string]any{"questions": []string{
		"Who says: " + strings.Join(words[:min(40, len(words))], " ") + "?",
		"What is " + core.Sum(call.Input).Short(8) + "?",
	}})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

// enriching has a site make every enrichment with models that are paid for.
func enriching(s *site) *seller {
	sold := paying(s)
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: asker{chat{sold}}, Classes: sold, Chunks: sold}, nil
	}
	s.spec.Enrich = []string{"gem", "facts", "aliases"}
	enrich.SetSettings(&s.spec, aliases.Enrichment,
		aliases.Settings{Ask: 50, Classes: 1000, Cosine: 0.5}, aliases.DefaultSettings)
	s.spec.Embedding.Dimension = 16
	s.spec.Gate.MaxRemoved = 1
	return sold
}

// bought gives the calls and texts that were sold since the last time.
func (s *seller) bought(before map[string]int) (calls, texts int) {
	for _, n := range s.calls {
		calls += n
	}
	clear(s.calls)
	for text, n := range s.texts {
		texts += n - before[text]
	}
	return calls, texts
}

func everyIndex(t *testing.T, s *site) (out []artifact.Index) {
	t.Helper()
	names, err := artifact.ListIndexes(t.Context(), s.Artifacts)
	require.NoError(t, err)
	slices.Sort(names)
	for _, name := range names {
		out = append(out, artifact.Index{Store: s.Artifacts, Name: name})
	}
	return out
}

// What enrichments paid for is packed, stays as long as a generation lists it, vectors too, and goes when none does.
// Promises: 88.
func TestWhatEnrichmentsPaidForIsPackedAndStaysWhileItIsListed(t *testing.T) {
	s := newSite(t, sample(9))
	sold := enriching(s)
	s.night(t)
	calls, texts := sold.bought(nil)
	sold.calls["questions"] = 0
	require.True(t, calls >= 20 && texts >= 20, "%d calls, %d texts: nothing is enriched", calls, texts)
	stray := core.Sum("of a build that was never published")
	for _, task := range ledger.OfEnrichments() {
		_, err := s.Ledger.Put(t.Context(), task, stray, 0, ledger.Result{Value: []byte("{}")})
		require.NoError(t, err)
	}
	upkeep := func(at time.Time) map[string]ledger.Kept {
		restart(s)
		out := map[string]ledger.Kept{}
		for _, task := range ledger.Tasks() {
			kept, err := s.Ledger.RunUpkeep(t.Context(), task, collect.ListKeys(t.Context(), everyIndex(t, s), task), at)
			require.NoError(t, err)
			out[task] = kept
		}
		return out
	}
	upkeep(time.Now())
	for day := range 40 { // one at a time, as a clock that jumps drops nothing
		upkeep(time.Now().Add(time.Duration(day) * 24 * time.Hour))
	}
	for _, task := range ledger.OfEnrichments() {
		entry, err := s.Ledger.Get(t.Context(), task, stray, 0)
		assert.True(t, entry == nil && err == nil, "%s: what nothing lists is still there: %v", task, err)
		packed := 0
		for info, err := range s.Artifacts.List(t.Context(), "ledger/"+task+"/", "") {
			require.NoError(t, err)
			if strings.Contains(info.Key, "/packs/") || strings.Contains(info.Key, "/merged/") {
				packed++
			}
			assert.False(t, strings.Contains(info.Key, "/loose/"), "%s lies loose", info.Key)
		}
		assert.True(t, packed != 0, "%s: nothing is packed", task)
	}
	before := maps.Clone(sold.texts)
	s.spec.Index = "other"
	s.night(t)
	if calls, texts := sold.bought(before); calls != 0 || texts != 0 {
		t.Errorf("another index pays for %d calls and %d texts that the first one paid for", calls, texts)
	}
	if got, want := len(s.current(t).Segments.FilesOf("gem", core.EnrichedLedger)), 1; got != want {
		t.Errorf("%d lists", got)
	}
}

// A purge takes what enrichments paid for the document out of the ledger, what themes say of it too, and nothing of
// other documents and indexes.
// Promises: 88.
func TestAPurgeTakesWhatEnrichmentsPaidForTheDocumentAlone(t *testing.T) {
	s := newSite(t, sample(9))
	sold := enriching(s)
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	apart := *s
	other := newSite(t, map[string]string{})
	for n := range 6 {
		other.write(t, map[string]string{
			fmt.Sprintf("hill-%d.md", n): fmt.Sprintf("# Hill %d\n\nMount Orr %d was climbed by Ida Falk.\n", n, n),
		})
	}
	apart.spec.Index, apart.corpus, apart.spec.Corpus = "apart", other.corpus, other.corpus
	apart.night(t)
	s.runs = apart.runs
	s.write(t, map[string]string{"secret.md": secretDocument(1)})
	s.night(t)
	words := []string{"Quastenberg", "Zuckmayer", "Tiberius", "in opals"} // that no other document has
	where := s.holding(t, words...)
	for _, task := range []string{"ledger/questions/", "ledger/triples/"} {
		if !slices.ContainsFunc(where, func(one string) bool { return strings.HasPrefix(one, task) }) {
			t.Fatalf("%s says nothing of the document: %q", task, where)
		}
	}
	purge := s.purge(t, "secret.md")
	s.night(t)
	if where := s.holding(t, words...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	if done := s.purged(t, purge.ID); done.State != core.PurgeDone || len(done.Forgotten) > 0 || done.Gone.Ledger == 0 {
		t.Errorf("%+v", done)
	}
	sold.bought(nil)
	before := maps.Clone(sold.texts)
	restart(s)
	for _, one := range []string{"fresh", "apart-fresh"} {
		again := *s
		if again.spec.Index = one; one == "apart-fresh" {
			again.corpus, again.spec.Corpus = other.corpus, other.corpus
		} else {
			again.corpus = t.TempDir()
			again.spec.Corpus = again.corpus
			again.write(t, sample(9))
		}
		again.night(t)
		s.runs = again.runs
		if calls, texts := sold.bought(before); calls != 0 || texts != 0 {
			t.Errorf("%s: %d calls and %d texts of what stays are paid for again", one, calls, texts)
		}
	}
}
