package pipeline_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// What an audit reads is kept until the audit ends, and no longer: a purge that follows it does not wait.
func TestAnAuditKeepsWhatItReadsUntilItEnds(t *testing.T) {
	s := builtSite(t, sample(4))
	work := s.Bare(run.Job{Index: s.spec.Index, Generation: "audit-001"}, core.StageAudit, upkeep.AuditFolder)
	defer work.Close()
	parts := must(work.OpenAudit(t.Context(), core.Everything, false))(t)
	for part := range parts {
		must(work.AuditPart(t.Context(), part))(t)
	}
	leased, err := s.Coordination.ListLeased(t.Context(), s.spec.Index)
	require.True(t, err == nil && leased[s.current(t).Generation], "%v, %v", leased, err)
	require.NoError(t, work.SealAudit(t.Context()))
	require.Eventually(t, func() bool {
		leased, err := s.Coordination.ListLeased(t.Context(), s.spec.Index)
		return err == nil && len(leased) == 0
	}, time.Minute, time.Millisecond)
}

// audit does what the workflow of an audit does.
func (s *site) audit(t *testing.T, sample core.Sample, repair bool) (core.Audit, error) {
	s.runs++
	job := run.Job{Index: s.spec.Index, Generation: fmt.Sprintf("audit-%03d", s.runs)}
	work := s.Bare(job, core.StageAudit, upkeep.AuditFolder)
	defer work.Close()
	parts, err := work.OpenAudit(t.Context(), sample, repair)
	for part := 0; part < parts && err == nil; part++ {
		_, err = work.AuditPart(t.Context(), part)
	}
	if err == nil {
		err = work.SealAudit(t.Context())
	}
	ending := run.Ending{Status: core.StatusCompleted}
	if err != nil {
		ending = run.Ending{Status: core.StatusFailed, Reason: string(fault.CodeOf(err))}
	}
	require.NoError(t, work.EndRestore(t.Context(), run.Holder{Workflow: "audit/docs", Run: "r"}, ending))
	assert.Empty(t, keysBelow(t, s.Artifacts, s.spec.Index+"/runs/"+job.Generation+"/"), "it left scratch")
	state, stateErr := run.ReadState(t.Context(), s.Coordination, job.Name())
	require.NoError(t, stateErr)
	if state.Report.Audit == nil {
		return core.Audit{}, err
	}
	return *state.Report.Audit, err
}

// drift returns how much of each kind was found.
func drift(found core.Audit) map[string]int64 {
	out := map[string]int64{}
	for _, one := range found.Drift {
		out[one.Kind] = one.Found
	}
	return out
}

// forge publishes the current generation again with other segments.
func (s *site) forge(t *testing.T, change func(manifest *core.Manifest)) {
	index := s.index()
	pointer, etag := must2(index.ReadPointer(t.Context()))(t)
	manifest := s.current(t)
	change(manifest)
	pointer.Manifest = must(index.PutManifest(t.Context(), manifest))(t)
	ref := core.GenerationRef{Manifest: pointer.Manifest, Seq: pointer.Seq, State: "published"}
	key := index.GenerationKey(pointer.Generation, "manifest.json")
	must(blob.WriteJSON(t.Context(), s.Artifacts, key, ref, blob.Cond{}))(t)
	cond := blob.Cond{Match: etag}
	must(blob.WriteJSON(t.Context(), s.Artifacts, index.CurrentKey(), pointer, cond))(t)
}

// rewrite gives a segment of rows that a change makes of another; a row that becomes nil is left out.
func (s *site) rewrite(
	t *testing.T, segment core.Segment, change func(at int, key string, value []byte) []byte,
) core.Segment {
	out := must(artifact.NewRows())(t)
	defer out.Discard()
	at := 0
	for row := range musttest.All(t, artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256))) {
		if value := change(at, string(row.Key), row.Value); value != nil {
			out.Append(string(row.Key), value)
		}
		at++
	}
	written, _ := must2(out.StoreSegment(t.Context(), s.index(), segment.Part))(t)
	return written
}

// Promises: 50.
func TestAnAuditOfWhatWasJustBuiltFindsNothing(t *testing.T) {
	for name, part := range map[string]core.Sample{"all": core.Everything, "a part": {Part: 2, Of: 3}} {
		s := builtSite(t, sample(20))
		s.write(t, map[string]string{"place-003.md": "# Changed\n\nPort Alma 3 was given to Carla Ruiz in 1999.\n"})
		s.night(t) // a generation that re-uses vectors of another
		before := keysBelow(t, s.Artifacts, "")
		found, err := s.audit(t, part, false)
		require.True(t, err == nil && len(found.Drift) == 0 && found.Left <= 0, "%s: %+v, %v", name, found, err)
		after := keysBelow(t, s.Artifacts, "")
		assert.True(t, len(after) == len(before), "%s: there were %d objects, and are %d", name, len(before), len(after))
		manifest := s.current(t)
		assert.True(t, !part.IsWhole() || found.Checked.Classes == manifest.Counts.Classes &&
			found.Checked.Mentions == manifest.Counts.Mentions && found.Checked.Chunks == manifest.Counts.Chunks &&
			found.Checked.Documents == manifest.Counts.Documents && found.Checked.Records == manifest.Counts.Classes &&
			found.Checked.Vectors == manifest.Counts.Classes+manifest.Counts.Windows,
			"looked at %+v of %+v", found.Checked, manifest.Counts)
	}
}

// Promises: 50.
func TestThePartsOfAnAuditLookAtEverythingOnce(t *testing.T) {
	s := newSite(t, sample(40))
	s.shard = 10
	s.night(t)
	whole := must(s.audit(t, core.Everything, false))(t)
	var sum core.Audited
	for part := 1; part <= 3; part++ {
		found := must(s.audit(t, core.Sample{Part: part, Of: 3}, false))(t)
		assert.True(t, found.Checked.Classes != 0 && found.Checked.Classes != whole.Checked.Classes,
			"part %d looked at %d of %d classes", part, found.Checked.Classes, whole.Checked.Classes)
		sum.Add(found.Checked)
	}
	assert.Equal(t, whole.Checked, sum, "three parts looked at")
}

// An audit that stands still loses its lease: other generations follow, and what it looks at is collected, its records
// and rows before its files. That is no drift, and nothing of it is written again.
// Promises: 51.
func TestAnAuditThatStoodStillIsNotMisledByWhatWasCollected(t *testing.T) {
	for _, repair := range []bool{false, true} {
		s := builtSite(t, sample(20))
		job := run.Job{Index: s.spec.Index, Generation: "audit-paused"}
		work := s.Bare(job, core.StageAudit, upkeep.AuditFolder)
		defer work.Close()
		parts := must(work.OpenAudit(t.Context(), core.Everything, repair))(t)
		manifest := s.current(t)
		s.buildFiles(t, map[string]string{"place-003.md": "# Changed\n\nPort Alma 3 was given to Carla Ruiz in 1999.\n"})
		mark := collect.MarkKey(s.index(), manifest.Generation)
		must(blob.Write(t.Context(), s.Artifacts, mark, []byte("{}"), blob.Cond{}))(t)
		require.NoError(t, s.Vectors.Drop(t.Context(), manifest.Collections.Classes))
		refused := -1
		for part := range parts {
			switch _, err := work.AuditPart(t.Context(), part); {
			case fault.Is(err, fault.GenCollected):
				refused = part
			case err != nil:
				t.Error(err)
			}
		}
		require.True(t, refused >= 0, "repair %v: what was collected counts as drift", repair)
		if has, err := s.Vectors.Has(t.Context(), manifest.Collections.Classes, []string{"x"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("repair %v: it wrote again what was collected: %v, %v", repair, has, err)
		}
		for _, key := range []string{s.index().GenerationKey(manifest.Generation, "manifest.json"), mark} {
			require.NoError(t, s.Artifacts.Delete(t.Context(), key))
		}
		_, err := work.AuditPart(t.Context(), refused)
		assert.True(t, fault.Is(err, fault.GenCollected), "repair %v: of a generation without a reference: %v", repair, err)
	}
}

// Each kind of drift, planted once, is found and named, and what can be mended is.
// Promises: 50.
func TestEachKindOfDriftIsFound(t *testing.T) {
	firstRecord := func(t *testing.T, s *site) (key string, class rows.Class) {
		t.Helper()
		manifest := s.current(t)
		for _, segment := range manifest.Segments.Classes {
			for row := range musttest.All(t, artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256))) {
				class = must(rows.DecodeClass(row.Value))(t)
				digest := rows.RecordDigest(class.Record)
				return core.RecordKey(manifest.Store, manifest.Index, core.ID(row.Key), digest), class
			}
		}
		t.Fatal("no class")
		return "", class
	}
	// rewritten plants another segment, whose rows a change makes of those of one of the manifest's.
	type changing func(at int, key string, value []byte) []byte
	rewritten := func(pick func(*core.Manifest) *core.Segment, change changing) func(*testing.T, *site) {
		return func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) {
				segment := pick(manifest)
				*segment = s.rewrite(t, *segment, change)
			})
		}
	}
	holding := func(list []core.Segment, least int64) *core.Segment {
		i := slices.IndexFunc(list, func(segment core.Segment) bool { return segment.Rows >= least })
		require.GreaterOrEqual(t, i, 0, "no segment has %d rows", least)
		return &list[i]
	}
	mentions := func(m *core.Manifest) *core.Segment { return holding(m.Segments.Mentions, 1) }
	documents := func(m *core.Manifest) *core.Segment { return &m.Segments.Documents[0] }
	// classRow plants another row of a partition's second class; nil: none.
	classRow := func(change func(class rows.Class) []byte) func(*testing.T, *site) {
		second := func(m *core.Manifest) *core.Segment { return holding(m.Segments.Classes, 2) }
		return rewritten(second, func(at int, _ string, value []byte) []byte {
			if at != 1 {
				return value
			}
			return change(must(rows.DecodeClass(value))(t))
		})
	}
	known, gone := map[string]int{}, ""
	liveVector := func(t *testing.T, s *site) (collection, key string) {
		_, class := firstRecord(t, s)
		record := must(rows.DecodeRecord(class.Record))(t)
		return s.current(t).Collections.Classes, core.ClassRow(record.ID, class.Vector)
	}
	for name, c := range map[string]struct {
		plant  func(t *testing.T, s *site)
		want   map[string]int64
		mended bool
		says   string
	}{
		"a record is missing": {func(t *testing.T, s *site) {
			key, _ := firstRecord(t, s)
			require.NoError(t, s.Records.DeleteRecords(t.Context(), []string{key}))
		}, map[string]int64{core.DriftRecord: 1}, true, "missing"},
		"a record is another": {func(t *testing.T, s *site) {
			key, _ := firstRecord(t, s)
			require.NoError(t, s.Records.PutRecords(t.Context(), []records.Record{{Key: key, Value: []byte("x")}}))
		}, map[string]int64{core.DriftRecord: 1}, true, "different content"},
		"a vector is missing": {func(t *testing.T, s *site) {
			collection, key := liveVector(t, s)
			require.NoError(t, s.Vectors.Delete(t.Context(), collection, []string{key}))
		}, map[string]int64{core.DriftVector: 1}, true, "missing"},
		"a vector is another": {func(t *testing.T, s *site) {
			collection, key := liveVector(t, s)
			other := make([]float32, s.current(t).Class.Dimension)
			other[0] = 1
			require.NoError(t, s.Vectors.Delete(t.Context(), collection, []string{key}))
			row := vectors.Row{Key: key, Vector: other}
			require.NoError(t, s.Vectors.Upsert(t.Context(), collection, []vectors.Row{row}))
		}, map[string]int64{core.DriftVector: 1}, true, "different content"},
		"a collection is gone": {func(t *testing.T, s *site) {
			require.NoError(t, s.Vectors.Drop(t.Context(), s.current(t).Collections.Classes))
		}, nil, true, "missing"},
		"a file is damaged": {func(t *testing.T, s *site) {
			damages["flipped"](t, s.Artifacts, s.index().SegmentKey(s.current(t).Segments.Text[0].SHA256))
		}, map[string]int64{core.DriftSegment: 1}, false, "text"},
		"the mentions of a partition are gone": {func(t *testing.T, s *site) {
			damages["removed"](t, s.Artifacts, s.index().SegmentKey(mentions(s.current(t)).SHA256))
		}, map[string]int64{core.DriftSegment: 1}, false, "rebuild"},
		"a row has another name": {classRow(func(class rows.Class) []byte {
			record := must(rows.DecodeRecord(class.Record))(t)
			record.Name += "s"
			class.Record = record.Encode()
			return class.Encode()
		}), map[string]int64{core.DriftClass: 1, core.DriftLive: 1}, false, "name"},
		"a mention is gone that its split counts": {rewritten(mentions, func(_ int, key string, value []byte) []byte {
			if known[key]++; known[key] == 3 && known[""] == 0 {
				known[""] = 1
				return nil
			}
			return value
		}), map[string]int64{core.DriftClass: 1, core.DriftHash: 1}, false, "mentions"},
		"a class has no row": {classRow(func(rows.Class) []byte { return nil }),
			map[string]int64{core.DriftClass: 1, core.DriftLive: 1}, false, "no row"},
		"a class has no mention": {rewritten(mentions, func(_ int, key string, value []byte) []byte {
			if gone = cmp.Or(gone, key); key == gone {
				return nil
			}
			return value
		}), map[string]int64{core.DriftClass: 1, core.DriftHash: 1}, false, "no mention"},
		"a document has lost a chunk": {rewritten(documents, func(at int, _ string, value []byte) []byte {
			document := must(rows.DecodeDocument(value))(t)
			if at == 0 {
				document.Chunks = document.Chunks[1:]
			}
			return document.Encode()
		}), map[string]int64{core.DriftDocument: 1, core.DriftHash: 1}, false, "chunks"},
		"the hash is another": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) { manifest.Hashes.Content.Add(core.Sum("x")) })
		}, map[string]int64{core.DriftHash: 1}, false, "content hash"},
		"a vectors segment is not named": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) { manifest.Segments.ClassVecs = manifest.Segments.ClassVecs[1:] })
		}, map[string]int64{core.DriftVector: 1}, false, "segments hold"},
	} {
		t.Run(name, func(t *testing.T) {
			s := builtSite(t, sample(20))
			c.plant(t, s)
			found, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift) && found.Left != 0 && strings.Contains(err.Error(), c.says),
				"%+v, %v", found, err)
			assert.True(t, c.want == nil || fmt.Sprint(drift(found)) == fmt.Sprint(c.want),
				"found %v, want %v: %+v", drift(found), c.want, found.Findings)
			again, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift) && fmt.Sprint(again.Drift) == fmt.Sprint(found.Drift),
				"an audit that only reads changed something: %+v, %v", again, err)
			repaired, err := s.audit(t, core.Everything, true)
			require.Equal(t, c.mended, err == nil, "repair: %+v, %v", repaired, err)
			after, err := s.audit(t, core.Everything, false)
			assert.True(t, (err == nil) == c.mended, "after the repair: %+v, %v", after, err)
		})
	}
}

// Verifying a build compares the first vectors of a batch; one that differs at its end differs in nothing else.
// Promises: 50.
func TestAnAuditComparesEveryVector(t *testing.T) {
	s := builtSite(t, sample(200))
	manifest := s.current(t)
	last := ""
	for _, segment := range manifest.Segments.Classes {
		for row := range musttest.All(t, artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256))) {
			class := must(rows.DecodeClass(row.Value))(t)
			last = max(last, core.ClassRow(core.ID(row.Key), class.Vector))
		}
	}
	other := make([]float32, manifest.Class.Dimension)
	other[0] = 1
	require.NoError(t, s.Vectors.Delete(t.Context(), manifest.Collections.Classes, []string{last}))
	spoiled := []vectors.Row{{Key: last, Vector: other}}
	require.NoError(t, s.Vectors.Upsert(t.Context(), manifest.Collections.Classes, spoiled))
	found, err := s.audit(t, core.Everything, false)
	assert.True(t, fault.Is(err, fault.Drift) &&
		fmt.Sprint(drift(found)) == fmt.Sprint(map[string]int64{core.DriftVector: 1}), "%+v, %v", found, err)
}

// A file of vectors that is gone, and a description of a collection with another bit, are found by the next night. It
// fills the collection from the artifacts, and asks no model.
// Promises: 85.
func TestANightFillsACollectionThatIsDamaged(t *testing.T) {
	damagesFile := func(damage func(t *testing.T, folder string)) func(*testing.T, *paidSite) func(string) {
		return func(t *testing.T, s *paidSite) func(string) {
			folder := filepath.Join(s.onDisk(t), "vectors")
			return func(collection string) {
				require.NoError(t, s.Vectors.Close())
				damage(t, filepath.Join(folder, collection))
				dense := must(files.Open(folder))(t)
				t.Cleanup(func() { _ = dense.Close() })
				s.Vectors = dense
			}
		}
	}
	for name, begin := range map[string]func(*testing.T, *paidSite) (damage func(collection string)){
		"part gone": damagesFile(func(t *testing.T, collection string) {
			parts, err := filepath.Glob(filepath.Join(collection, "*.part"))
			require.True(t, err == nil && len(parts) != 0, "%v %v", parts, err)
			require.NoError(t, os.Remove(parts[0]))
		}),
		"another bit": damagesFile(func(t *testing.T, collection string) {
			path := filepath.Join(collection, "meta.json")
			raw := must(os.ReadFile(path))(t)
			raw[bytes.Index(raw, []byte(`"dim":`))+len(`"dim":`)] ^= 2
			require.NoError(t, os.WriteFile(path, raw, 0o600))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newPaidSite(t, 8, calm)
			damage := begin(t, s)
			first := s.night(t).manifest
			for _, collection := range []string{first.Collections.Classes, first.Collections.Chunks} {
				want := must(s.Vectors.Count(t.Context(), collection))(t)
				damage(collection)
				before := s.server.Stats()
				assert.NotZero(t, s.night(t).planned.Repair, "%s: the night does not look", collection)
				assert.Equal(t, want, must(s.Vectors.Count(t.Context(), collection))(t), "rows of %s", collection)
				after := s.server.Stats()
				assert.True(t, after.Chat == before.Chat && after.Texts == before.Texts, "models were asked: %+v", after)
				assert.Zero(t, s.night(t).planned.Repair, "%s: the night after looks again", collection)
			}
		})
	}
}

// Damage to open files of vectors is found by an audit, and mended by its repair, a restore and a night that looks for
// every row: the next process finds the collections whole, and this one searches them.
// Promises: 50, 85.
func TestDamageToOpenVectorsIsFoundAndMended(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, s *site, folder string) error{
		"repair": func(t *testing.T, s *site, _ string) error {
			found, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift), "an audit finds nothing: %+v, %v", found, err)
			refused(s.audit(t, core.Sample{Part: 1, Of: 2}, true))(t, fault.Drift, "", "half of a lost collection was filled")
			_, err = s.audit(t, core.Everything, true)
			return err
		},
		"restore": func(t *testing.T, s *site, _ string) error { return s.restore(t) },
		"night": func(t *testing.T, s *site, folder string) error {
			for _, path := range matching(t, folder, "identity") { // a question met a damaged row
				require.NoError(t, os.Remove(path))
			}
			assert.NotZero(t, s.night(t).planned.Repair)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newSite(t, sample(8)), t.TempDir()
			open := func() *files.Store {
				dense := must(files.Open(folder))(t)
				t.Cleanup(func() { _ = dense.Close() })
				return dense
			}
			s.Vectors = open()
			first := s.night(t).manifest
			parts := matching(t, folder, "*.part")
			for _, path := range parts {
				raw := must(os.ReadFile(path))(t)
				raw[len(raw)/6] ^= 0xff // of the codes, which are checked when the file is opened
				require.NoError(t, os.WriteFile(path, raw, 0o600))
			}
			require.NoError(t, mend(t, s, folder))
			require.True(t, len(parts) > 1 && len(matching(t, folder, "*.part")) > 1, "%v", parts)
			question := make([]float32, first.Class.Dimension)
			question[0] = 1
			for _, collection := range []string{first.Collections.Classes, first.Collections.Chunks} {
				assert.Len(t, musttest.Get(s.Vectors.Search(t.Context(), collection, question, 1))(t), 1, collection)
			}
			require.NoError(t, s.Vectors.Close())
			s.Vectors = open()
			found, err := s.audit(t, core.Everything, false)
			assert.NoError(t, err, "%+v", found)
		})
	}
}

// matching lists the files of collections of a name.
func matching(t *testing.T, folder, name string) []string {
	paths, err := filepath.Glob(filepath.Join(folder, "*[0-9]", name))
	require.True(t, err == nil && len(paths) > 0, "%v, %v", paths, err)
	return paths
}
