package pipeline_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// essay returns a text of about so many chunks of 60 tokens.
func essay(topic string, chunks int) string {
	var text strings.Builder
	for i := range chunks {
		fmt.Fprintf(&text, "Harbour %s was surveyed by Carla Ruiz in year %d. Salt, tin and rye left Port %s-%d for Lake "+
			"Verin on %d barges, each with a crew of nine. The ledger of that year names every captain and cargo.\n\n",
			topic, 1700+i, topic, i, i+3)
	}
	return text.String()
}

func zipped(t *testing.T, text string) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	for _, line := range strings.SplitAfter(text, "\n") { // flushed, so that a cut file gives what lies before the cut
		must(writer.Write([]byte(line)))(t)
		require.NoError(t, writer.Flush())
	}
	require.NoError(t, writer.Close())
	return out.String()
}

func (s *site) remove(t *testing.T, names ...string) {
	for _, name := range names {
		require.NoError(t, os.RemoveAll(filepath.Join(s.corpus, name)))
	}
}

// served reads the documents of the generation that is served, or of another by its manifest.
func (s *site) served(t *testing.T, manifest *core.Manifest) map[string]rows.Document {
	all := map[string]rows.Document{}
	dead := must(segments.OpenTombs(t.Context(), s.Cache, s.index(), manifest.Segments))(t)
	defer dead.Release()
	for row, err := range segments.StreamDocuments(t.Context(), s.index(), manifest.Segments, dead) {
		require.NoError(t, err)
		all[string(row.Key)] = must(rows.DecodeDocument(row.Value))(t)
	}
	return all
}

// built reads the manifest of the last night, published or held; nil where it built nothing.
func (s *site) built(t *testing.T) *core.Manifest {
	ref, err := s.index().GenerationRef(t.Context(), fmt.Sprintf("g%03d", s.runs))
	if fault.Is(err, fault.UnknownGen) {
		return nil
	}
	require.NoError(t, err)
	return must(s.index().Manifest(t.Context(), ref.Manifest))(t)
}

func contents(documents map[string]rows.Document) (chunks, stale int) {
	for _, document := range documents {
		chunks += len(document.Chunks)
		if document.Stale {
			stale++
		}
	}
	return chunks, stale
}

// small returns forty files of two chunks. large returns ten of twenty-one, packed six objects of sixty rows, and
// foldered three folders of ten files.
func small() map[string]string { return essays("%02d.md", 40, 1) }
func large() map[string]string { return essays("%02d.md", 10, 20) }
func foldered() map[string]string {
	files := map[string]string{}
	for _, folder := range []string{"a", "b", "c"} {
		for name, text := range essays(folder+"/%02d.md", 10, 2) {
			files[name] = text
		}
	}
	return files
}

func essays(name string, files, chunks int) map[string]string {
	all := map[string]string{}
	for i := range files {
		key := fmt.Sprintf(name, i)
		all[key] = "# About " + key + "\n\n" + essay(key, chunks)
	}
	return all
}

func packedRows(object, rows int) string {
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `{"id":"%d-%d","title":"Row %d","text":"Barge %d-%d carried rye to Tolmin for Ana Verk."}`+"\n",
			object, i, i, object, i)
	}
	return text.String()
}

func packed(t *testing.T) map[string]string {
	files := map[string]string{}
	for i := range 6 {
		files[fmt.Sprintf("rows-%d.jsonl.gz", i)] = zipped(t, packedRows(i, 60))
	}
	return files
}

func emptied(objects, rows int) map[string]string {
	files := map[string]string{}
	for i := range objects {
		files[fmt.Sprintf("rows-%d.jsonl", i)] = packedRows(i, rows)
	}
	return files
}

// happening is what may happen to a corpus between two nights, and what must come of it.
type happening struct {
	what   string
	files  map[string]string
	change func(*testing.T, *site)
	status string
	reason string
	failed int64 // documents
	stale  int
	kept   bool // every chunk of the parent is in what was built
}

const (
	rubbish    = "\x7fELF\x00\x00\x01"
	overBudget = "failure_budget"
)

// overwritten gives files [0, n) another content.
func overwritten(n int, content string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("%02d.md", i)] = content
		}
		s.write(t, files)
	}
}

// writes gives one file another content.
func writes(name, content string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) { s.write(t, map[string]string{name: content}) }
}

func brokenDocuments(t *testing.T) []happening {
	cut := zipped(t, packedRows(3, 20)) // and 13 bytes that end it
	return []happening{
		{"nothing", small(), func(*testing.T, *site) {}, core.StatusCompleted, "", 0, 0, true},
		{"35 of 40 files truncated to 0 bytes", small(), overwritten(35, ""), core.StatusHeld, overBudget, 35, 35, true},
		{"4 of 40 files truncated to 0 bytes", small(), overwritten(4, ""), core.StatusErrors, "", 4, 4, true},
		{"5 of 10 large files are rubbish", large(), overwritten(5, rubbish), core.StatusHeld, overBudget, 5, 5, true},
		{"1 of 10 large files is rubbish", large(), overwritten(1, rubbish), core.StatusErrors, "", 1, 1, true},
		{
			"1 of 6 .jsonl.gz truncated (60 of 360 rows, 40 behind the cut)", packed(t),
			writes("rows-3.jsonl.gz", cut[:len(cut)-13]), core.StatusHeld, overBudget, 40, 40, true,
		},
		{"1 of 6 .jsonl.gz is rubbish", packed(t), writes("rows-3.jsonl.gz", rubbish),
			core.StatusHeld, overBudget, 60, 60, true},
		{"1 of 10 .jsonl emptied (40 of 400 rows)", emptied(10, 40), writes("rows-3.jsonl", ""),
			core.StatusHeld, overBudget, 40, 40, true},
		{"1 of 20 .jsonl emptied (4 of 80 rows)", emptied(20, 4), writes("rows-3.jsonl", ""),
			core.StatusErrors, "", 4, 4, true},
		{
			"the last 3 rows of a .jsonl are cut off in a line",
			map[string]string{"rows.jsonl": packedRows(0, 50), "a.md": essay("a", 3)},
			writes("rows.jsonl", packedRows(0, 47)+`{"id":"0-47","title":"Ro`), core.StatusErrors, "", 3, 3, true,
		},
	}
}

func documentsThatComeAndGo(t *testing.T) []happening {
	return []happening{
		{
			"a folder with a third of the files renamed", foldered(), func(t *testing.T, s *site) {
				require.NoError(t, os.Rename(filepath.Join(s.corpus, "b"), filepath.Join(s.corpus, "z")))
			}, core.StatusCompleted, "", 0, 0, false,
		},
		{
			"every .jsonl.gz renamed", packed(t), func(t *testing.T, s *site) {
				for i := range 6 {
					name := filepath.Join(s.corpus, fmt.Sprintf("rows-%d.jsonl.gz", i))
					require.NoError(t, os.Rename(name, name[:len(name)-len(".jsonl.gz")]+"-v2.jsonl.gz"))
				}
			}, core.StatusCompleted, "", 0, 0, false,
		},
		{
			"every file copied again (other ETags, the same bytes)", small(), func(t *testing.T, s *site) {
				s.remove(t, ".")
				s.write(t, small())
			}, core.StatusCompleted, "", 0, 0, true,
		},
		{"a third of the files deleted", foldered(), func(t *testing.T, s *site) { s.remove(t, "b") },
			core.StatusHeld, "mass_deletion", 0, 0, true},
		{"4 of 40 files deleted", small(), func(t *testing.T, s *site) { s.remove(t, "00.md", "01.md", "02.md", "03.md") },
			core.StatusCompleted, "", 0, 0, false},
		{"a new file that is rubbish", small(), writes("new.md", rubbish), core.StatusErrors, "", 1, 0, true},
		{"a new file that is empty", small(), writes("new.md", ""), core.StatusCompleted, "", 0, 0, true},
	}
}

// firstNight is a corpus and what was built of it, from which several second nights may begin.
type firstNight struct {
	site  *site
	files string // the corpus as it was, under other names
	out   outcome
}

func newFirstNight(t *testing.T, files map[string]string) *firstNight {
	n := &firstNight{site: newSite(t, files), files: t.TempDir()}
	n.site.spec.Chunking.MaxTokens = 60
	linked(t, n.site.corpus, n.files)
	n.out = n.site.night(t)
	require.True(t, n.out.published.Status == core.StatusCompleted, "%+v", n.out.published)
	return n
}

// again returns the installation after that night, over the corpus as it was then.
func (n *firstNight) again(t *testing.T) (*site, outcome) {
	n.site.remove(t, ".")
	linked(t, n.files, n.site.corpus)
	return n.site.copied(t), n.out
}

// What may happen to a corpus, and what comes of it. Nothing that was served is lost without a word: it is kept, or the
// night is held, or somebody removed it.
// Promises: 57.
func TestWhatIsLostIsHeldOrKeptAndTold(t *testing.T) {
	nights := map[core.Digest]*firstNight{}
	for _, c := range append(brokenDocuments(t), documentsThatComeAndGo(t)...) {
		name := core.Sum(fmt.Sprint(c.files))
		if nights[name] == nil {
			nights[name] = newFirstNight(t, c.files)
		}
		t.Run(c.what, func(t *testing.T) {
			s, first := nights[name].again(t)
			before := s.served(t, first.manifest)
			c.change(t, s)
			night := s.night(t)
			report := s.report(t)
			built := s.built(t)
			if built == nil { // unchanged, or held before anything was built
				built = night.manifest
			}
			after := s.served(t, built)
			chunks, _ := contents(before)
			now, stale := contents(after)
			assert.True(t, report.Status == c.status && report.Reason == c.reason,
				"%s (%s): %s", report.Status, report.Reason, report.Detail)
			assert.True(t, report.DocumentsFailed == c.failed && stale == c.stale,
				"%d failed, %d stale; want %d, %d", report.DocumentsFailed, stale, c.failed, c.stale)
			assert.True(t, !strings.HasPrefix(c.what, "a new file") || report.Diff.Added == 0,
				"%d added, and none can be used", report.Diff.Added)
			assert.True(t, report.Stale == int64(stale) && built.Counts.Stale == int64(stale),
				"%d documents are stale, the report says %d", stale, report.Stale)
			for key, old := range before {
				assert.True(t, !c.kept || fmt.Sprint(after[key].Chunks) == fmt.Sprint(old.Chunks),
					"%s had %d chunks and has %d", key, len(old.Chunks), len(after[key].Chunks))
			}
			assert.True(t, c.kept || c.status != core.StatusCompleted || !strings.Contains(c.what, "renamed") || now == chunks,
				"%d chunks became %d", chunks, now)
		})
	}
}

// A document that breaks costs nothing while it is broken: the generation has the hashes that it had, nothing is
// written to the stores, and unchanged nights write nothing at all and say so every time.
// Promises: 57.
func TestAStaleDocumentStandsAndHealsAndCostsNothing(t *testing.T) {
	s := newSite(t, sample(12))
	first := s.night(t)
	night := s.buildFiles(t, map[string]string{"place-003.md": ""})
	report := s.report(t)
	require.True(t, night.published.Status == core.StatusErrors && night.manifest.Hashes == first.manifest.Hashes &&
		report.Written.Records+report.Written.Rows == 0 && report.Stale == 1 && report.DocumentsFailed == 1,
		"%+v, hashes equal: %v, written %+v, stale %d", night.published, night.manifest.Hashes == first.manifest.Hashes,
		report.Written, report.Stale)
	for range 2 {
		again := s.night(t)
		report := s.report(t)
		assert.True(t, again.planned.Unchanged && again.planned.Status == core.StatusErrors && report.Stale == 1 &&
			report.Written == (core.Written{}) && report.DocumentsFailed == 1 && len(report.Problems) == 1,
			"%+v, %+v", again.planned, report)
		list, _, err := blob.Read(t.Context(), s.Artifacts, report.ProblemsPath)
		assert.True(t, err == nil && strings.Contains(string(list), `"standing":true`) &&
			strings.Contains(string(list), "empty_document"), "%s, %v", list, err)
	}
	s.write(t, map[string]string{"other.md": "# Other\n\nTin from Tolmin.\n"})
	if other := s.night(t); other.published.Status != core.StatusErrors || s.report(t).Stale != 1 ||
		other.manifest.Counts.Documents != 12 || len(s.served(t, other.manifest)["place-003.md"].Chunks) == 0 {
		t.Errorf("a night on which something else changes: %+v", other.manifest.Counts)
	}
	healed := s.buildFiles(t, map[string]string{"place-003.md": "# Harbour 3\n\nPort Alma 3 was rebuilt by Ivo Kralj.\n"})
	row := s.served(t, healed.manifest)["place-003.md"]
	assert.True(t, !row.Stale && row.Problem == "" && healed.published.Status == core.StatusCompleted &&
		healed.manifest.Counts.Stale == 0, "healed: %+v, %+v", row, healed.published)
}

// A document that should be empty is removed; then it is gone like any other, and may come back empty.
func TestAStaleDocumentThatIsRemovedIsGone(t *testing.T) {
	s := builtSite(t, sample(12))
	s.buildFiles(t, map[string]string{"place-003.md": ""})
	s.remove(t, "place-003.md")
	night := s.night(t)
	_, there := s.served(t, night.manifest)["place-003.md"]
	require.True(t, !there && night.published.Status == core.StatusCompleted && s.report(t).Diff.Removed == 1,
		"there %v, %+v, %+v", there, night.published, s.report(t).Diff)
	s.buildFiles(t, map[string]string{"place-003.md": ""})
	if report := s.report(t); report.DocumentsFailed != 0 || report.Stale != 0 || report.Status != core.StatusCompleted {
		t.Errorf("empty from now on: %+v", report)
	}
}

// A document that is saved after it was planned is published as it was saved, in the same night.
func TestADocumentThatIsSavedDuringTheBuildIsPublishedAsItIs(t *testing.T) {
	s := builtSite(t, sample(12))
	s.write(t, map[string]string{"place-004.md": "# Harbour 4\n\nA first draft about Port Alma 4.\n"})
	last := "# Harbour 4\n\nThe last word about Port Alma 4, by Carla Ruiz.\n"
	s.before = func(stage string) {
		if stage == "chunk" {
			s.write(t, map[string]string{"place-004.md": last})
			s.before = nil
		}
	}
	night := s.night(t)
	row := s.served(t, night.manifest)["place-004.md"]
	require.True(t, row.Version == core.Digest(sha256.Sum256([]byte(last))) && row.Problem == "" &&
		row.Size == int64(len(last)) && night.published.Status == core.StatusCompleted, "%+v, %+v", row, night.published)
	again := s.night(t)
	assert.True(t, again.planned.Unchanged, "the night after: %+v", again.planned)
}

// What another corpus had under the same keys is none of this one's.
func TestNothingIsKeptWhereTheCorpusIsReplaced(t *testing.T) {
	s := builtSite(t, sample(12))
	s.corpus = t.TempDir()
	s.spec.Corpus, s.spec.Gate.MaxRemoved, s.replace = s.corpus, 1, true
	night := s.buildFiles(t, map[string]string{"place-001.md": "", "own.md": "# Own\n\nSalt of Lake Verin.\n"})
	documents := s.served(t, night.manifest)
	assert.True(t, night.published.Status == core.StatusCompleted && len(documents) == 2 &&
		len(documents["place-001.md"].Chunks) == 0 && night.manifest.Counts.Stale == 0,
		"%+v, %+v", night.published, documents)
}

// deletable returns an installation with two indexes: docs, which has two generations and what is left of a branch, and
// docs-2.
func deletable(t *testing.T) (*site, *shop) {
	s, sold := newSite(t, sample(40)), &shop{sold: map[string]int{}}
	s.Models = sold.models
	stored := s.Artifacts
	s.Artifacts = artifact.NewBranched(stored)
	s.night(t)
	s.changed(t)
	must(s.act(t, core.ActionTag, fmt.Sprintf("g%03d", s.runs)))(t)
	must(s.branch(t, "exp", nil))(t)
	idle := func(context.Context, artifact.Index) (string, error) { return "", nil }
	must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "exp"}, idle))(t)
	// A record that was begun says docs-2; the name went to another index.
	key := artifact.New(stored, "docs").BranchKey("docs-2")
	_, err := blob.WriteJSON(t.Context(), stored, key, core.Branch{Base: "docs", Name: "docs-2", State: core.BranchOpen}, blob.Cond{})
	require.NoError(t, err)
	s.spec.Index = "docs-2"
	s.night(t)
	must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "docs-2"}, idle))(t)
	s.entire(t, "docs-2")
	s.spec.Index = "docs"
	s.Artifacts = stored
	return s, sold
}

// delete deletes docs by a process of its own, which dies at a write.
func (s *site) delete(t *testing.T, died *mortal, dry bool) (core.Deletion, error) {
	desk := &release.Desk{
		Artifacts: artifact.NewBranched(died.blobs(s.Artifacts, died.write)), Mirror: s.Coordination,
		Records: mortalRecords{s.Records, died}, Vectors: mortalVectors{s.Vectors, died},
	}
	return desk.DeleteIndex(t.Context(), release.Deleting{
		Index: "docs", DryRun: dry, Operator: core.Operator{By: "ada@desk", Reason: "moved"}, StoreID: s.StoreID,
		Standings:  func(context.Context, run.Holder) (run.Standing, error) { return run.StandingUnknown, nil },
		Unschedule: func(context.Context) error { return died.write(func(float64) error { return nil }) },
		Forget: func(ctx context.Context, index string) error {
			return died.write(func(float64) error { return s.Coordination.ForgetIndex(ctx, index) })
		},
	})
}

// stored returns everything that the stores have, by store and key, and the coordination's mirror.
func (s *site) stored(t *testing.T) map[string]string {
	out := map[string]string{}
	for info := range musttest.All(t, s.Artifacts.List(t.Context(), "", "")) {
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, info.Key))(t)
		out["object "+info.Key] = core.Sum(string(raw)).String()
	}
	require.NoError(t, s.Records.ScanRecords(t.Context(), "", func(keys []string) error {
		for _, key := range keys {
			out["record "+key] = ""
		}
		return nil
	}))
	collections := must(s.Vectors.List(t.Context(), ""))(t)
	for _, collection := range collections {
		rows := must(s.Vectors.Count(t.Context(), collection))(t)
		out["collection "+collection] = fmt.Sprint(rows)
	}
	_, mirrors := must2(s.Coordination.ReadMirrors(t.Context(), ""))(t)
	for index, pointer := range mirrors {
		out["mirror "+index] = string(pointer)
	}
	return out
}

// A process dies at each write of a deletion in turn. Meanwhile the index is whole, or there is none; the same command
// ends it, and nothing is left but what other indexes have, byte for byte, and the record of who deleted it.
// Promises: 142.
func TestADeletionThatDiedAnywhereIsFinishedByTheSameCommand(t *testing.T) {
	whole, _ := deletable(t)
	before := whole.stored(t)
	dies := func(t *testing.T, at int) (writes int) {
		s := whole.copied(t)
		died := &mortal{left: at, share: 0.5 * float64(at%2)} // the write is done, or not
		_, failed := s.delete(t, died, false)
		if failed != nil {
			require.ErrorIs(t, failed, errKilled, "at write %d", at)
			current, _ := must2(artifact.New(s.Artifacts, "docs").ReadPointer(t.Context()))(t)
			if current.Manifest != "" {
				s.entire(t, "docs")
			}
			_, left := s.stored(t)["object docs/lease.json"]
			if lease, _, err := run.ReadLease(t.Context(), artifact.New(s.Artifacts, "docs")); err == nil && lease.Run != "" {
				require.NoError(t, uuid.Validate(lease.Run), "the engine is asked about the run of a lease")
			}
			done, err := s.delete(t, &mortal{}, false)
			if !left { // it died after all was gone but the record of that
				require.True(t, fault.Is(err, fault.UnknownIndex), "again after write %d: %v", at, err)
			} else {
				require.NoError(t, err, "again after write %d", at)
			}
			assert.True(t, err != nil || done.Begun, "write %d: it goes on with an earlier one: %v", at, done.Begun)
		}
		after := s.stored(t)
		trail := must(release.ListOperations(t.Context(), artifact.New(s.Artifacts, "docs"), 0))(t)
		assert.True(t, len(trail) > 0 && trail[0].Action == core.ActionDelete && trail[0].By == "ada@desk", "%+v", trail)
		maps.DeleteFunc(after, func(key, _ string) bool { return strings.HasPrefix(key, "object _deleted/docs/") })
		assert.Equal(t, expectedAfterDeletion(s, before), after, "at write %d", at)
		return at - died.left
	}
	var all int
	synctest.Test(t, func(t *testing.T) { all = dies(t, 1<<20) })
	require.Greater(t, all, 20)
	for at := 1; at <= all; at++ {
		synctest.Test(t, func(t *testing.T) { dies(t, at) })
	}
}

// expectedAfterDeletion returns what was stored, without what was of docs or of its deleted branch.
func expectedAfterDeletion(s *site, before map[string]string) map[string]string {
	out := maps.Clone(before)
	for _, prefix := range []string{
		"object docs/", "object exp/", "object _branches/exp.json", "record " + core.RecordPrefix(s.StoreID, "docs"),
		"collection " + core.CollectionPrefix(s.StoreID, "docs"),
	} {
		maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
	}
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, "mirror ") }) // a copy begins without
	return out
}

// A name that was deleted is built again from what was paid for, and has its earlier hashes.
// Promises: 142.
func TestADeletedIndexIsBuiltAgainForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sold := deletable(t)
		index := artifact.New(s.Artifacts, "docs")
		current, _ := must2(index.ReadPointer(t.Context()))(t)
		first := must(index.Manifest(t.Context(), current.Manifest))(t)
		wish := "docs/purges/20260101t000000z.json"
		must(blob.Write(t.Context(), s.Artifacts, wish, []byte("{}"), blob.Cond{}))(t)
		must(blob.Write(t.Context(), s.Artifacts, index.ScheduleKey(), []byte("{}"), blob.Cond{}))(t)
		plan := must(s.delete(t, &mortal{}, true))(t)
		assert.Equal(t, 1, plan.Purges)
		assert.True(t, plan.Schedule)
		assert.True(t, plan.Generations >= 2 && plan.Serves == current.Generation && slices.Equal(plan.Tags, []string{"kept"}) &&
			slices.Equal(plan.Branches, []string{"exp"}) && len(plan.Collections) == 2, "%+v", plan)
		s.entire(t, "docs") // a dry run deletes nothing
		gone := must(s.delete(t, &mortal{}, false))(t)
		assert.True(t, gone.Objects == plan.Objects && gone.Records > 0 && gone.Records == plan.Records && gone.Operation != "", "%+v", gone)
		_, paid := sold.twice()
		again := s.night(t)
		twice, now := sold.twice()
		assert.True(t, twice == 0 && now == paid, "%d answers are paid for again, %d more are", twice, now-paid)
		assert.Equal(t, first.Hashes, again.manifest.Hashes)
		assert.Equal(t, int64(1), again.manifest.Seq)
		s.entire(t, "docs")
		s.entire(t, "docs-2")
	})
}

// A deletion is refused while a run or a branch has the index, and no run takes its lease while it is deleted.
func TestADeletionIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := deletable(t)
		stored := s.Artifacts.(*blobmemory.Store)
		refused := func(code fault.Code, way string) {
			refused(s.delete(t, &mortal{}, false))(t, code, way, "")
			s.Artifacts = artifact.NewBranched(stored)
			s.entire(t, "docs")
			s.Artifacts = stored
		}
		job, holder := s.leased(t)
		refused(fault.LeaseHeld, "unweaver cancel "+job.Name())
		require.NoError(t, run.GiveLease(t.Context(), artifact.New(stored, "docs"), holder))
		s.Artifacts = artifact.NewBranched(stored)
		must(s.branch(t, "twin", nil))(t)
		s.Artifacts = stored
		refused(fault.Usage, "unweaver branch docs --delete twin")
		idle := func(context.Context, artifact.Index) (string, error) { return "", nil }
		must(s.desk().DeleteBranch(t.Context(), release.Branching{Base: "docs", Name: "twin"}, idle))(t)
		_, err := s.delete(t, &mortal{left: 12}, false)
		require.ErrorIs(t, err, errKilled)
		_, err = run.TakeLease(t.Context(), artifact.New(stored, "docs"), holder, nil)
		assert.True(t, fault.Is(err, fault.LeaseHeld) && strings.Contains(err.Error(), "unweaver delete docs"), "%v", err)
	})
}

// unlisted is a bucket whose objects may not be listed.
type unlisted struct{ blob.Store }

func (u unlisted) List(context.Context, string, string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		yield(blob.Info{}, fault.StoreDenied.At("list", "bucket").Because("no such right"))
	}
}

// Promises: 121.
func TestTheNextRunDeletesTheCopiesOfOneThatWasCancelled(t *testing.T) {
	s := newSite(t, sample(8))
	job, holder := s.leased(t) // cancelled while it imported
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: core.StatusCancelled}))
	bucket := blobmemory.New()
	s.Staging = bucket
	copies := core.ImportPrefix(s.StoreID)
	running := copies + "notes/runs/g001/1/classes-0/ab.parquet" // of another index, whose fences count for it alone
	for _, key := range []string{copies + "docs/runs/g001/1/classes-0/ab.parquet", running} {
		must(blob.Write(t.Context(), bucket, key, []byte("rows"), blob.Cond{}))(t)
	}
	s.Staging = unlisted{bucket}
	night := s.night(t)
	require.True(t, night.published.Status == core.StatusCompleted, "%+v", night.published)
	var reported []core.Problem
	for _, problem := range s.report(t).Problems {
		if strings.Contains(problem.Detail, "let the worker's credentials list and delete") {
			reported = append(reported, problem)
		}
	}
	assert.True(t, len(reported) == 1 && reported[0].Code == string(fault.StoreDenied) &&
		len(keysBelow(t, bucket, "")) == 2, "reported %+v, left %q", reported, keysBelow(t, bucket, ""))
	s.Staging = bucket
	s.buildFiles(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	if left := keysBelow(t, bucket, ""); !slices.Equal(left, []string{running}) || len(s.report(t).Problems) != 0 {
		t.Errorf("left %q, reported %+v", left, s.report(t).Problems)
	}
}
