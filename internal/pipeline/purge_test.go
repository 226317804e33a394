package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	recordsbolt "github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// secrets are passages of the document that is purged, and of its former version: each stands nowhere else.
var secrets = []string{
	"Marlene Quastenberg paid the ferryman in opals", "the vault below Zuckmayer Lane was never sealed",
	"Quastenberg kept a heron called Tiberius",
}

func secretDocument(version int) string {
	return fmt.Sprintf("# The opal ledger of Quastenberg\n\nIn 1911 %s. Carla Ruiz wrote that %s.\n", secrets[0], secrets[1+version])
}

// holding returns where one of some texts is stored. It shares nothing with the search of the product.
func (s *site) holding(t *testing.T, texts ...string) []string {
	return stagetest.Holding(t, s.Artifacts, s.Records, "", texts...)
}

// purge asks for documents to leave the index, and has the next run do it.
func (s *site) purge(t *testing.T, documents ...string) core.Purge {
	plan := must(purges.Plan(t.Context(), s.index(), documents))(t)
	wish := purges.WishOf(plan)
	wish.At = time.Now()
	purge := must(purges.Begin(t.Context(), s.index(), wish))(t)
	require.NoError(t, upkeep.ChoosePurge(t.Context(), s.index(), fmt.Sprintf("g%03d", s.runs+1), purge.ID))
	return purge
}

func (s *site) purged(t *testing.T, id string) core.Purge {
	all, err := purges.List(t.Context(), artifact.Index{Store: s.Artifacts, Name: s.spec.Index})
	at := slices.IndexFunc(all, func(purge core.Purge) bool { return purge.ID == id })
	require.True(t, err == nil && at >= 0, "purge %s is at %d of the list: %v", id, at, err)
	return all[at]
}

// A purged document leaves everything that is stored: its versions in all generations, what was extracted and paid for,
// the texts of classes that were made from it. Nothing else is lost, paid for again, or taken in.
// Promises: 5.
func TestAPurgedDocumentLeavesEverythingThatIsStored(t *testing.T) {
	s := newPaidSite(t, 12, calm)
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	require.NoError(t, s.index().PutTag(t.Context(), "g001", "audit", struct{}{}))
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(1)})
	where := s.holding(t, secrets...)
	require.True(t, len(where) >= 8, "the search finds too little of what is there: %q", where)
	before := s.server.Stats()
	s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nBern sells salt to Lake Verin.\n"})
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	require.True(t, out.published.Status == core.StatusCompleted && out.manifest.Counts.Documents == 12 &&
		out.planned.Documents == 0, "%+v, %+v, %+v", out.planned, out.published, out.manifest.Counts)
	assert.Empty(t, s.holding(t, secrets...), "still stored")
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && len(done.Left) <= 0 && done.Gone.Generations == 2 &&
		done.Gone.Ledger != 0, "%+v", done)
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-before.Tasks["extract"].Calls, "the purge paid for")
	asked := s.estimating()
	asked.Why = "secret.md"
	why := estimated(t, asked).Why
	assert.True(t, why.Reason == "purged" && strings.Contains(why.Detail, "--readmit"), "why it is not taken in: %+v", why)
	// The next night takes in what changed meanwhile, pays for that alone, and leaves the document out.
	before = s.server.Stats()
	night := s.night(t)
	assert.True(t, night.planned.Documents == 1 && night.manifest.Counts.Documents == 12 &&
		len(s.holding(t, secrets...)) <= 0, "%+v, %+v", night.planned, night.manifest.Counts)
	calls := s.server.Stats().Tasks["extract"].Calls - before.Tasks["extract"].Calls
	assert.True(t, calls == 1, "the night after paid for %d extractions", calls)
	// It is what a build from nothing without the document comes to.
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "secret.md")))
	fresh := newPaidSite(t, 0, calm)
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	if built := fresh.night(t); built.manifest.Hashes.Content != night.manifest.Hashes.Content ||
		built.manifest.Hashes.Text != night.manifest.Hashes.Text {
		t.Error("the nights after a purge come to another index than a build from nothing")
	}
	again := s.night(t)
	assert.True(t, again.planned.Unchanged, "%+v", again.planned)
}

// onDisk gives a site the stores of the embedded stack, in a folder.
func (s *paidSite) onDisk(t *testing.T) (folder string) {
	folder = t.TempDir()
	artifacts := must(dir.Open(filepath.Join(folder, "artifacts")))(t)
	classes := must(recordsbolt.Open(filepath.Join(folder, "records.db")))(t)
	dense := must(files.Open(filepath.Join(folder, "vectors")))(t)
	t.Cleanup(func() {
		for _, err := range []error{classes.Close(), dense.Close()} {
			assert.NoError(t, err)
		}
	})
	s.Cache = must(localfile.New(filepath.Join(folder, "cache"), 0))(t)
	s.StoreID = must(artifact.OpenStoreID(t.Context(), artifacts))(t)
	s.Records, s.Vectors = classes, dense
	s.blobs = artifacts
	s.begin()
	s.Artifacts = artifacts
	s.Ledger = ledger.New(artifacts, s.Coordination)
	return folder
}

// On the stores of the embedded stack no byte of any file says a word that the document alone had: neither free pages
// of the file of records, nor the table of words, nor the copies that were mapped.
// Promises: 5.
func TestNoFileOfTheEmbeddedStoresHoldsAWordOfAPurgedDocument(t *testing.T) {
	s := newPaidSite(t, 12, calm)
	folder := s.onDisk(t)
	s.spec.Embedding = core.EmbedModel{Provider: "builtin"}
	words := []string{"quastenberg", "zuckmayer", "tiberius", "ferryman in opals"}
	first := s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	s.write(t, map[string]string{"secret.md": secretDocument(1), "late.md": "# Late\n\nBern sells tin to Lake Verin.\n\n" +
		"of old it was never sealed.\n"})
	was := s.night(t)
	where := stagetest.FilesHolding(t, folder, words...)
	require.True(t, len(where) >= 10, "the search finds too little of what is there: %q", where)
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	assert.Empty(t, stagetest.FilesHolding(t, folder, words...), "still stored")
	table := s.index().SegmentKey(out.manifest.Segments.IDF[0].SHA256)
	raw, _, err := blob.Read(t.Context(), s.Artifacts, table)
	assert.True(t, err == nil && strings.Contains(string(raw), "sealed"), "a word that another document has went: %v", err)
	assert.Empty(t, s.holding(t, append(secrets, "Quastenberg", "quastenberg")...), "still stored")
	// What stays has the vectors that it had.
	assert.True(t, was.manifest.Class == out.manifest.Class && first.manifest.Collections == out.manifest.Collections,
		"a purge makes other vectors of what stays")
	next := s.buildFiles(t, map[string]string{"later.md": "# Later\n\nBasel sells tin to Lake Verin.\n"})
	assert.True(t, next.manifest.Class == out.manifest.Class && next.planned.Documents == 1, "%+v", next.planned)
	assert.Empty(t, stagetest.FilesHolding(t, folder, words...), "the night after stored it again")
}

// Words of a language without spaces are runs of characters, which are in no list of English words.
func TestAPurgeTakesTheWordsOfItsLanguage(t *testing.T) {
	s := newPaidSite(t, 4, calm)
	folder := s.onDisk(t)
	s.spec.Embedding, s.spec.Retrieval.Language = core.EmbedModel{Provider: "builtin"}, "zh"
	s.buildFiles(t, map[string]string{"secret.md": "# 鎏金\n\n他在瀛台造了鎏金龜。\n"})
	require.NotEmpty(t, stagetest.FilesHolding(t, folder, "瀛台", "鎏金"), "the search finds nothing of what is there")
	s.purge(t, "secret.md")
	s.night(t)
	assert.Empty(t, stagetest.FilesHolding(t, folder, "瀛台", "鎏金"), "still stored")
}

// A purge waits until no reader has a generation open that has to go. That is no work: estimates do not count it.
func TestAPurgeCountsItsWaitForReadersAsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, sample(6))
		first := s.night(t).manifest.Generation
		require.NoError(t, s.Coordination.Lease(
			t.Context(), []coordination.Held{{Index: "docs", Generation: first}}, "reader", 10*time.Second))
		purge := s.purge(t, "place-003.md")
		begun := time.Now()
		s.night(t)
		require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
		var report core.Report
		key := artifact.New(s.Artifacts, "docs").GenerationKey("g002", "report.json")
		must(blob.ReadJSON(t.Context(), s.Artifacts, key, &report))(t)
		assert.True(t, report.IdleSeconds >= 9 && report.IdleSeconds <= time.Since(begun).Seconds(), "%g s", report.IdleSeconds)
	})
}

// A purge whose process dies at a write, and whose run ends there, is gone on with by the next one, and ends the same:
// nothing of the document is stored, and nothing else is paid for.
// Promises: 47.
func TestAPurgeThatDiesAnywhereIsGoneOnWith(t *testing.T) {
	died := 0
	for at := 1; ; at += 6 {
		s := newPaidSite(t, 5, calm)
		s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
		s.buildFiles(t, map[string]string{"secret.md": secretDocument(1)})
		paid := s.server.Stats().Tasks["extract"].Calls
		purge := s.purge(t, "secret.md")
		job, holder := s.leased(t)
		process, writes := s.process(), 0
		process.put = func(string) error {
			if writes++; writes == at {
				process.dead.Store(true)
				return errKilled
			}
			return nil
		}
		_, err := s.stages(t.Context(), job, holder)
		if err == nil {
			break // it was done before it could die
		}
		died++
		s.begin()
		s.end(t, job, holder, run.Ending{Status: core.StatusFailed, Reason: "killed"})
		if again := s.purge(t, "secret.md"); again.ID != purge.ID && s.purged(t, purge.ID).State != core.PurgeDone {
			t.Fatalf("died at write %d: another purge was begun: %+v", at, again)
		}
		out := s.night(t)
		assert.Empty(t, s.holding(t, secrets...), "died at write %d: still stored in", at)
		assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State, "died at write %d", at)
		if calls := s.server.Stats().Tasks["extract"].Calls - paid; calls != 0 || out.manifest.Counts.Documents != 5 {
			t.Errorf("died at write %d: %d calls, %+v", at, calls, out.manifest.Counts)
		}
	}
	assert.True(t, died >= 5, "only %d processes died", died)
}

// What another document has too stays, and is listed; asked for again it costs nothing. A purge that may return does so
// with the next night.
// Promises: 47.
func TestWhatAnotherDocumentHasTooStays(t *testing.T) {
	s := newPaidSite(t, 5, calm)
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0), "twin.md": secretDocument(0)})
	purge := s.purge(t, "secret.md")
	paid := s.server.Stats().Tasks["extract"].Calls
	out := s.night(t)
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && done.Shared != 0 && out.manifest.Counts.Documents == 6,
		"%+v, %+v", done, out.manifest.Counts)
	assert.NotEmpty(t, s.holding(t, secrets[0]), "the other document lost its text")
	assert.EqualValues(t, 1, musttest.Get(purges.Allow(t.Context(), s.index(), []string{"secret.md"}))(t))
	s.begin() // claims of what was paid for a moment ago run out
	back := s.night(t)
	assert.True(t, back.manifest.Counts.Documents == 7, "%+v", back.manifest.Counts)
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-paid)
}

// Failures of a document go with it: its dead letters, their paid refusals, and what reports and states of runs quote.
func TestFailuresOfAPurgedDocumentGoWithIt(t *testing.T) {
	s := newPaidSite(t, 5, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "extract" && strings.Contains(seen.Text, "Quastenberg") {
			return modeltest.Injection{Content: "Sorry, I do not talk about the heron of Quastenberg."}
		}
		return modeltest.Injection{}
	})
	s.spec.Failures.Share = 0.9
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	s.buildFiles(t, map[string]string{"late.md": "# Late\n\nBern sells tin to Lake Verin.\n"})
	texts := append(slices.Clone(secrets), "the heron of Quastenberg")
	state := func(work string) string {
		raw := must(s.Coordination.ReadState(t.Context(), work))(t)
		return string(raw)
	}
	if where := s.holding(t, texts...); len(where) < 8 || !strings.Contains(state("docs/g001"), "Quastenberg") {
		t.Fatalf("too little is there: %q, %s", where, state("docs/g001"))
	}
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	if done := s.purged(t, purge.ID); done.State != core.PurgeDone || out.manifest.Counts.DeadLetters != 0 {
		t.Errorf("%+v, %+v", done, out.manifest.Counts)
	}
	assert.Empty(t, s.holding(t, texts...), "still stored")
	for _, work := range []string{"docs/g001", "docs/g002", "docs/g003"} {
		assert.True(t, !strings.Contains(state(work), "Quastenberg") && !strings.Contains(state(work), "secret.md"),
			"the state of %s names it: %s", work, state(work))
	}
}

// With a mail go the documents attached to it, and come back with it; an attachment alone leaves its mail, and rows are
// none of their object.
func TestWhatIsAttachedToAPurgedDocumentGoesWithIt(t *testing.T) {
	s := newSite(t, sample(20))
	s.spec.Documents, s.spec.Gate.MaxRemoved = &core.Documents{Attachments: true}, 0.5
	part := func(name, text string) documenttest.Part { return documenttest.Part{Name: name, Content: text} }
	s.buildFiles(t, map[string]string{
		"m.eml": documenttest.MailWith("A mail", part("a.md", secrets[0]), part("b.md", secrets[1])),
		"n.eml": documenttest.MailWith("Another", part("a.md", secrets[2]), part("b.md", "The heron stays")),
		"r.csv": "id,text\n1,a row\n2,another\n",
	})
	rows, err := purges.Plan(t.Context(), s.index(), []string{"r.csv"})
	assert.True(t, err == nil && len(rows.Documents) == 1 && !rows.Documents[0].Known, "%+v, %v", rows, err)
	assert.Equal(t, []string{"r.csv#1", "r.csv#2"}, rows.Documents[0].Rows)
	require.NotEmpty(t, s.holding(t, secrets...))
	purge := s.purge(t, "m.eml", "n.eml#a.md")
	assert.True(t, len(purge.Documents) == 4 && len(purge.Attached) == 2, "%+v", purge)
	held := slices.Sorted(maps.Keys(s.served(t, s.night(t).manifest)))
	held = slices.DeleteFunc(held, func(key string) bool { return !strings.Contains(key, ".eml") })
	assert.Equal(t, []string{"n.eml", "n.eml#b.md"}, held)
	assert.Empty(t, s.holding(t, secrets...))
	s.purge(t, "n.eml")
	s.night(t)
	count, err := purges.Allow(t.Context(), s.index(), []string{"m.eml", "n.eml#a.md", "n.eml"})
	assert.True(t, err == nil && count == 2, "%d, %v", count, err)
	assert.Contains(t, s.served(t, s.night(t).manifest), "m.eml#b.md")
}

// What a backfill was begun for names no document that was purged, and what is left of its choice chooses nothing
// more for it.
// Promises: 5.
func TestAPurgeTakesDocumentsOutOfTheChoicesOfBackfills(t *testing.T) {
	s := newPaidSite(t, 6, calm)
	s.night(t)
	const secret = "old/heron-tiberius.md"
	s.write(t, archive(3))
	s.write(t, map[string]string{secret: secretDocument(0)})
	filled := s.fills(t, "old", core.BackfillChoice{Documents: []string{secret, "old/place-001.md"}})
	require.Equal(t, int64(2), filled.open(t).Documents)
	filled.publish(t)
	filled.end(t, core.StatusCompleted)
	only := s.fills(t, "only", core.BackfillChoice{Documents: []string{secret}})
	only.end(t, core.StatusCancelled)
	prefix := s.fills(t, "prefix", core.BackfillChoice{Prefix: secret})
	prefix.end(t, core.StatusCancelled)
	other := s.fills(t, "other", core.BackfillChoice{Prefix: "old/"})
	other.end(t, core.StatusCancelled)

	words := append(slices.Clone(secrets), "heron-tiberius")
	where := s.holding(t, words...)
	require.True(t, len(where) >= 8, "the search finds too little of what is there: %q", where)
	purge := s.purge(t, secret)
	s.night(t)
	require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	assert.Empty(t, s.holding(t, words...), "still stored")
	chooses := func(f *filling, key string) bool { return f.state(t).Choice.NewChooser()(key, time.Now()) }
	assert.True(t, chooses(filled, "old/place-001.md") && !chooses(filled, "old/place-002.md"),
		"%+v", filled.state(t).Choice)
	for _, none := range []*filling{only, prefix} {
		assert.True(t, !chooses(none, "old/place-001.md") && none.state(t).Choice.FindMistake() == "",
			"a choice of which nothing is left: %+v", none.state(t).Choice)
	}
	assert.True(t, chooses(other, "old/place-002.md"), "%+v", other.state(t).Choice)
	// The object is in the corpus as it was: a backfill that begins now does not read it, let alone pay for it.
	opened := s.fills(t, "later", core.BackfillChoice{Prefix: "old/heron"}).open(t)
	assert.True(t, opened.Documents == 0, "a backfill after the purge takes up %+v", opened)
}

// A generation that a gate holds goes with what is purged, though it is not served, and cannot be approved any more.
// Promises: 5.
func TestAPurgeTakesAGenerationThatAGateHolds(t *testing.T) {
	s := newPaidSite(t, 12, calm)
	first := s.night(t)
	s.spec.Gate.MaxSizeChange = 0.01
	held := s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	refs, err := s.index().ListByName(t.Context())
	require.True(t, err == nil && held.published.Status == core.StatusHeld && refs["g002"].State == "held" &&
		held.manifest.Generation == first.manifest.Generation, "%+v, %+v, %v", held.published, refs, err)
	where := s.holding(t, secrets...)
	require.True(t, len(where) >= 4, "the search finds too little of what is there: %q", where)
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	require.Equal(t, core.StatusCompleted, out.published.Status, "%+v", out.published)
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && done.Gone.Generations == 1 && done.Gone.Ledger != 0, "%+v", done)
	assert.Empty(t, s.holding(t, secrets...), "still stored")
	refs, err = s.index().ListByName(t.Context())
	assert.True(t, err == nil && refs["g002"].Manifest == "", "%+v, %v", refs, err)
	assert.True(t, musttest.Get(s.index().IsPurged(t.Context(), "g002"))(t), "readers do not learn it")
}

// A purge waits for the schedule alone: what it judges nights by names the document until another is applied.
// Promises: 5.
func TestAPurgeTakesStoredProbeFilesThatNameTheDocument(t *testing.T) {
	s := newPaidSite(t, 12, calm)
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	put := func(document string) string {
		return must(s.index().PutProbes(t.Context(), []byte(`{"question":"Who?","documents":["`+document+`"]}`)))(t)
	}
	names := func(sum string) bool {
		_, err := s.Artifacts.Stat(t.Context(), s.index().ProbesKey(sum))
		return err == nil
	}
	scheduled := put("secret.md")
	spec := s.spec
	spec.Gate.Probes = core.SentFile + scheduled
	require.NoError(t, run.KeepSchedule(t.Context(), s.index(), run.Scheduled{Spec: spec}))
	purge := s.purge(t, "secret.md")
	s.night(t)
	waits := s.purged(t, purge.ID)
	require.Equal(t, core.PurgePending, waits.State)
	require.Len(t, waits.Left, 1)
	assert.Contains(t, waits.Left[0], "unweaver schedule apply docs")
	assert.True(t, names(scheduled))

	other := put("place-003.md")
	spec.Gate.Probes = core.SentFile + other
	require.NoError(t, run.KeepSchedule(t.Context(), s.index(), run.Scheduled{Spec: spec}))
	s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	assert.True(t, !names(scheduled) && names(other), "gone: %t, kept: %t", !names(scheduled), names(other))
}

// What enrichments of a run paid for that was never published is listed by no generation. After a purge the ledger
// alone may have a text of the document, and only until entries that no generation lists expire.
func TestWhatARunPaidForThatWasNeverPublishedOutlastsAPurgeByTheLedgersGraceAlone(t *testing.T) {
	s := newSite(t, sample(9))
	enriching(s)
	enrich := s.spec.Enrich
	s.spec.Enrich = nil
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	s.spec.Enrich = enrich
	whole, store, enriched := s.Artifacts, newDying(s.Artifacts, math.MaxInt64), false
	s.Artifacts = store
	s.before = func(stage string) {
		if enriched = enriched || stage == "enrich"; enriched && stage != "enrich" {
			store.left.Store(0)
		}
	}
	job, holder := s.leased(t)
	require.Error(t, musttest.Err(s.stages(t.Context(), job, holder)), "it did not die")
	s.before, s.Artifacts = nil, whole
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: core.StatusFailed, Reason: "internal"}))
	restart(s)
	purge := s.purge(t, "secret.md")
	s.night(t)
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone, "%s, %q", done.State, done.Left)
	for _, where := range s.holding(t, secrets...) {
		assert.True(t, strings.HasPrefix(where, "ledger/"), "still stored in %s", where)
	}
	index := []artifact.Index{{Store: s.Artifacts, Name: s.spec.Index}}
	for _, task := range ledger.Tasks() {
		later := time.Now().Add(ledger.Unlisted + time.Hour)
		must(s.Ledger.Expire(t.Context(), task, collect.ListKeys(t.Context(), index, task), later))(t)
	}
	assert.Empty(t, s.holding(t, secrets...), "14 days later still stored")
}

func (s *site) unbranch(t *testing.T, name string) {
	idle := func(ctx context.Context, index artifact.Index) (string, error) { return "", nil }
	must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: name}, idle))(t)
}

// A purge of a base that got a branch after it was asked for does not end before the branch is gone; what the branch
// leaves goes with it, and no branch is made meanwhile. The nights of a later branch leave the document out.
// Promises: 46.
func TestAPurgeOfABaseEndsOnceItHasNoBranch(t *testing.T) {
	withBranches(t, func(t *testing.T, s *site) {
		s.spec.Grace = core.Duration(24 * time.Hour) // what a deleted branch leaves does not wait for it
		s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
		must(s.branch(t, "large", map[string]string{"shortening.threshold": "60"}))(t)
		s.on("large", 60)
		s.night(t)
		s.on("docs", 4000)
		purge := s.purge(t, "secret.md") // as one that met no branch yet
		if _, err := s.branch(t, "other", nil); !fault.Is(err, fault.Usage) || !strings.Contains(err.Error(), "purge") {
			t.Errorf("a branch that is made while a purge is pending: %v", err)
		}
		s.night(t)
		waits := s.purged(t, purge.ID)
		assert.True(t, waits.State == core.PurgePending && strings.Contains(strings.Join(waits.Left, " "), "branch large"),
			"a purge beside a branch: %s, left %q", waits.State, waits.Left)
		require.True(t, len(s.holding(t, secrets...)) != 0, "the branch lost what it has")
		s.entire(t, "large")
		s.unbranch(t, "large")
		s.night(t)
		if done := s.purged(t, purge.ID); done.State != core.PurgeDone || len(done.Left) > 0 {
			t.Errorf("a purge behind a branch: %s, left %q", done.State, done.Left)
		}
		assert.Empty(t, s.holding(t, secrets...), "still stored")
		s.entire(t, "docs")
		must(s.branch(t, "third", map[string]string{"shortening.threshold": "60"}))(t)
		s.on("third", 60)
		s.night(t)
		assert.Empty(t, s.holding(t, secrets...), "a night of a branch stored it again")
	})
}
