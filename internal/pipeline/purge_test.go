package pipeline_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
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
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	recordsbolt "github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// secrets are passages of the document that is purged, and of its former version: each stands nowhere else.
var secrets = []string{
	"Marlene Quastenberg paid the ferryman in opals", "the vault below Zuckmayer Lane was never sealed",
	"Quastenberg kept a heron called Tiberius",
}

func secretDocument(version int) string {
	return fmt.Sprintf("# The opal ledger of Quastenberg\n\nIn 1911 %s. Carla Ruiz wrote that %s.\n", secrets[0], secrets[1+version])
}

// holding gives what of the stored bytes holds one of some texts: objects of the artifacts, with the rows of row files,
// and class records. It shares nothing with the search of the product.
func (s *site) holding(t *testing.T, texts ...string) (where []string) {
	t.Helper()
	ctx := t.Context()
	look := func(name string, raw []byte) {
		for _, text := range texts {
			if bytes.Contains(raw, []byte(text)) {
				where = append(where, name+": "+text)
				return
			}
		}
	}
	for info, err := range s.Artifacts.List(ctx, "", "") {
		require.NoError(t, err)
		raw, _, err := blob.Read(ctx, s.Artifacts, info.Key)
		require.NoError(t, err)
		look(info.Key, raw)
		for row, err := range artifact.ScanAll(ctx, s.Artifacts, info.Key) {
			if err != nil {
				break // no row file
			}
			look(info.Key+" (row)", append(append(bytes.Clone(row.Key), ' '), row.Value...))
		}
	}
	err := s.Records.ScanRecords(ctx, "", func(keys []string) error {
		values, err := s.Records.GetRecords(ctx, keys)
		for i, value := range values {
			look("record "+keys[i], value)
		}
		return err
	})
	require.NoError(t, err)
	return where
}

// purge asks for documents to leave the index, and has the next run do it.
func (s *site) purge(t *testing.T, documents ...string) core.Purge {
	t.Helper()
	index := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}
	plan, err := purges.Plan(t.Context(), index, documents)
	require.NoError(t, err)
	wish := purges.WishOf(plan)
	wish.At = time.Now()
	purge, err := purges.Begin(t.Context(), index, wish)
	require.NoError(t, err)
	require.NoError(t, upkeep.ChoosePurge(t.Context(), index, fmt.Sprintf("g%03d", s.runs+1), purge.ID))
	return purge
}

func (s *site) purged(t *testing.T, id string) core.Purge {
	t.Helper()
	all, err := purges.List(t.Context(), artifact.Index{Store: s.Artifacts, Name: s.spec.Index})
	at := slices.IndexFunc(all, func(purge core.Purge) bool { return purge.ID == id })
	require.True(t, err == nil && at >= 0, "purge %s is at %d of the list: %v", id, at, err)
	return all[at]
}

// A purged document leaves everything that is stored: its versions in all generations, what was extracted and paid for,
// the texts of classes that were made from it. Nothing else is lost, paid for again, or taken in.
// Promises: 5.
func TestAPurgedDocumentLeavesEverythingThatIsStored(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 12, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	require.NoError(t, index.PutTag(t.Context(), "g001", "audit", struct{}{}))
	s.write(t, map[string]string{"secret.md": secretDocument(1)})
	s.night(t)
	if where := s.holding(t, secrets...); len(where) < 8 {
		t.Fatalf("the search finds too little of what is there: %q", where)
	}
	before := s.server.Stats()
	s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nBern sells salt to Lake Verin.\n"})
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	if out.published.Status != core.StatusCompleted || out.manifest.Counts.Documents != 12 ||
		out.planned.Documents != 0 {
		t.Fatalf("%+v, %+v, %+v", out.planned, out.published, out.manifest.Counts)
	}
	if where := s.holding(t, secrets...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	done := s.purged(t, purge.ID)
	if done.State != core.PurgeDone || len(done.Left) > 0 || done.Gone.Generations != 2 || done.Gone.Ledger == 0 {
		t.Errorf("%+v", done)
	}
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-before.Tasks["extract"].Calls, "the purge paid for")
	asked := s.estimating()
	asked.Why = "secret.md"
	if why := estimated(t, asked).Why; why.Reason != "purged" || !strings.Contains(why.Detail, "--readmit") {
		t.Errorf("why it is not taken in: %+v", why)
	}
	// The next night takes in what changed meanwhile, pays for that alone, and leaves the document out.
	before = s.server.Stats()
	night := s.night(t)
	if night.planned.Documents != 1 || night.manifest.Counts.Documents != 12 || len(s.holding(t, secrets...)) > 0 {
		t.Errorf("%+v, %+v", night.planned, night.manifest.Counts)
	}
	if calls := s.server.Stats().Tasks["extract"].Calls - before.Tasks["extract"].Calls; calls != 1 {
		t.Errorf("the night after paid for %d extractions", calls)
	}
	// It is what a build from nothing without the document comes to.
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "secret.md")))
	fresh := newPaidSite(t, 0, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	fresh.corpus, fresh.spec.Corpus = s.corpus, s.corpus
	if built := fresh.night(t); built.manifest.Hashes.Content != night.manifest.Hashes.Content ||
		built.manifest.Hashes.Text != night.manifest.Hashes.Text {
		t.Error("the nights after a purge come to another index than a build from nothing")
	}
	if again := s.night(t); !again.planned.Unchanged {
		t.Errorf("%+v", again.planned)
	}
}

// onDisk gives a site the stores of the embedded stack, in a folder.
func (s *paidSite) onDisk(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	artifacts, err := dir.Open(filepath.Join(folder, "artifacts"))
	require.NoError(t, err)
	classes, err := recordsbolt.Open(filepath.Join(folder, "records.db"))
	require.NoError(t, err)
	dense, err := files.Open(filepath.Join(folder, "vectors"))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, err := range []error{classes.Close(), dense.Close()} {
			assert.NoError(t, err)
		}
	})
	s.Cache, err = localfile.New(filepath.Join(folder, "cache"), 0)
	require.NoError(t, err)
	s.StoreID, err = artifact.OpenStoreID(t.Context(), artifacts)
	require.NoError(t, err)
	s.Records, s.Vectors = classes, dense
	s.blobs = artifacts
	s.begin()
	s.Artifacts = artifacts
	s.Ledger = ledger.New(artifacts, s.Coordination)
	return folder
}

// onDiskHolding gives the files of a folder in whose bytes one of some words stands, in whatever case.
func onDiskHolding(t *testing.T, folder string, words ...string) (where []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, word := range words {
			if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
				where = append(where, path+": "+word)
				break
			}
		}
		return err
	})
	require.NoError(t, err)
	return where
}

// On the stores of the embedded stack no byte of any file says a word that the document alone had: neither free pages
// of the file of records, nor the table of words, nor the copies that were mapped.
// Promises: 5.
func TestNoFileOfTheEmbeddedStoresHoldsAWordOfAPurgedDocument(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 12, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	folder := s.onDisk(t)
	s.spec.Embedding = core.EmbedModel{Provider: "builtin"}
	words := []string{"quastenberg", "zuckmayer", "tiberius", "ferryman in opals"}
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	first := s.night(t)
	s.write(t, map[string]string{"secret.md": secretDocument(1), "late.md": "# Late\n\nBern sells tin to Lake Verin.\n"})
	was := s.night(t)
	if where := onDiskHolding(t, folder, words...); len(where) < 10 {
		t.Fatalf("the search finds too little of what is there: %q", where)
	}
	purge := s.purge(t, "secret.md")
	out := s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	if where := onDiskHolding(t, folder, words...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	if where := s.holding(t, append(secrets, "Quastenberg", "quastenberg")...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	// What stays has the vectors that it had.
	assert.True(t, was.manifest.Class == out.manifest.Class && first.manifest.Collections == out.manifest.Collections,
		"a purge makes other vectors of what stays")
	s.write(t, map[string]string{"later.md": "# Later\n\nBasel sells tin to Lake Verin.\n"})
	if next := s.night(t); next.manifest.Class != out.manifest.Class || next.planned.Documents != 1 {
		t.Errorf("%+v", next.planned)
	}
	if where := onDiskHolding(t, folder, words...); len(where) > 0 {
		t.Errorf("the night after stored it again in %q", where)
	}
}

// Words of a language without spaces are runs of characters, which are in no list of English words.
func TestAPurgeTakesTheWordsOfItsLanguage(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 4, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	folder := s.onDisk(t)
	s.spec.Embedding, s.spec.Retrieval.Language = core.EmbedModel{Provider: "builtin"}, "zh"
	s.write(t, map[string]string{"secret.md": "# 鎏金\n\n他在瀛台造了鎏金龜。\n"})
	s.night(t)
	if where := onDiskHolding(t, folder, "瀛台", "鎏金"); len(where) == 0 {
		t.Fatal("the search finds nothing of what is there")
	}
	s.purge(t, "secret.md")
	s.night(t)
	if where := onDiskHolding(t, folder, "瀛台", "鎏金"); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
}

// A purge waits until no reader has a generation open that has to go. That is no work: estimates do not count it.
func TestAPurgeCountsItsWaitForReadersAsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, sample(6))
		first := s.night(t).manifest.Generation
		require.NoError(t, s.Coordination.Lease(t.Context(), "docs", first, "reader", 10*time.Second))
		purge := s.purge(t, "place-003.md")
		begun := time.Now()
		s.night(t)
		require.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
		var report core.Report
		key := artifact.New(s.Artifacts, "docs").GenerationKey("g002", "report.json")
		_, err := blob.ReadJSON(t.Context(), s.Artifacts, key, &report)
		require.NoError(t, err)
		assert.True(t, report.IdleSeconds >= 9 && report.IdleSeconds <= time.Since(begun).Seconds(), "%g s", report.IdleSeconds)
	})
}

// A purge whose process dies at a write, and whose run ends there, is gone on with by the next one, and ends the same:
// nothing of the document is stored, and nothing else is paid for.
// Promises: 47.
func TestAPurgeThatDiesAnywhereIsGoneOnWith(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	died := 0
	for at := 1; ; at += 6 {
		s := newPaidSite(t, 5, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
		s.write(t, map[string]string{"secret.md": secretDocument(0)})
		s.night(t)
		s.write(t, map[string]string{"secret.md": secretDocument(1)})
		s.night(t)
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
		where := s.holding(t, secrets...)
		assert.True(t, len(where) == 0, "died at write %d: still stored in %q", at, where)
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
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 5, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	s.write(t, map[string]string{"secret.md": secretDocument(0), "twin.md": secretDocument(0)})
	s.night(t)
	purge := s.purge(t, "secret.md")
	paid := s.server.Stats().Tasks["extract"].Calls
	out := s.night(t)
	done := s.purged(t, purge.ID)
	assert.True(t, done.State == core.PurgeDone && done.Shared != 0 && out.manifest.Counts.Documents == 6,
		"%+v, %+v", done, out.manifest.Counts)
	if where := s.holding(t, secrets[0]); len(where) == 0 {
		t.Error("the other document lost its text")
	}
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	if allowed, err := purges.Allow(t.Context(), index, []string{"secret.md"}); err != nil || allowed != 1 {
		t.Errorf("%d, %v", allowed, err)
	}
	s.begin() // claims of what was paid for a moment ago run out
	if back := s.night(t); back.manifest.Counts.Documents != 7 {
		t.Errorf("%+v", back.manifest.Counts)
	}
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-paid)
}

// Failures of a document go with it: its dead letters, their paid refusals, and what reports and states of runs quote.
func TestFailuresOfAPurgedDocumentGoWithIt(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 5, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "extract" && strings.Contains(seen.Text, "Quastenberg") {
			return modeltest.Injection{Content: "Sorry, I do not talk about the heron of Quastenberg."}
		}
		return modeltest.Injection{}
	})
	s.spec.Failures.Share = 0.9
	s.write(t, map[string]string{"secret.md": secretDocument(0)})
	s.night(t)
	s.write(t, map[string]string{"late.md": "# Late\n\nBern sells tin to Lake Verin.\n"})
	s.night(t)
	texts := append(slices.Clone(secrets), "the heron of Quastenberg")
	state := func(work string) string {
		raw, err := s.Coordination.ReadState(t.Context(), work)
		require.NoError(t, err)
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
	if where := s.holding(t, texts...); len(where) > 0 {
		t.Errorf("still stored in %q", where)
	}
	for _, work := range []string{"docs/g001", "docs/g002", "docs/g003"} {
		if strings.Contains(state(work), "Quastenberg") || strings.Contains(state(work), "secret.md") {
			t.Errorf("the state of %s names it: %s", work, state(work))
		}
	}
}

// With a mail go the documents attached to it, and come back with it; an attachment alone leaves its mail, and rows are
// none of their object.
func TestWhatIsAttachedToAPurgedDocumentGoesWithIt(t *testing.T) {
	s := newSite(t, sample(20))
	s.spec.Documents, s.spec.Gate.MaxRemoved = &core.Documents{Attachments: true}, 0.5
	part := func(name, text string) documenttest.Part { return documenttest.Part{Name: name, Content: text} }
	s.write(t, map[string]string{
		"m.eml": documenttest.MailWith("A mail", part("a.md", secrets[0]), part("b.md", secrets[1])),
		"n.eml": documenttest.MailWith("Another", part("a.md", secrets[2]), part("b.md", "The heron stays")),
		"r.csv": "id,text\n1,a row\n2,another\n",
	})
	s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}
	rows, err := purges.Plan(t.Context(), index, []string{"r.csv"})
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
	count, err := purges.Allow(t.Context(), index, []string{"m.eml", "n.eml#a.md", "n.eml"})
	assert.True(t, err == nil && count == 2, "%d, %v", count, err)
	assert.Contains(t, s.served(t, s.night(t).manifest), "m.eml#b.md")
}
