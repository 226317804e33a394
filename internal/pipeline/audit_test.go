package pipeline_test

import (
	"fmt"
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
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// What an audit reads is kept until the audit ends, and no longer: a purge that follows it does not wait.
func TestAnAuditKeepsWhatItReadsUntilItEnds(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	work := s.Bare(run.Job{Index: s.spec.Index, Generation: "audit-001"}, core.StageAudit, upkeep.AuditFolder)
	defer work.Close()
	parts, err := work.OpenAudit(t.Context(), core.Everything, false)
	require.NoError(t, err)
	for part := range parts {
		_, err := work.AuditPart(t.Context(), part)
		require.NoError(t, err)
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
	t.Helper()
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
	if left := keysBelow(t, s.Artifacts, s.spec.Index+"/runs/"+job.Generation+"/"); len(left) > 0 {
		t.Errorf("it left scratch: %v", left)
	}
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
	t.Helper()
	index := s.index()
	pointer, etag, err := index.ReadPointer(t.Context())
	require.NoError(t, err)
	manifest := s.current(t)
	change(manifest)
	pointer.Manifest, err = index.PutManifest(t.Context(), manifest)
	require.NoError(t, err)
	ref := core.GenerationRef{Manifest: pointer.Manifest, Seq: pointer.Seq, State: "published"}
	key := index.GenerationKey(pointer.Generation, "manifest.json")
	_, err = blob.WriteJSON(t.Context(), s.Artifacts, key, ref, blob.Cond{})
	require.NoError(t, err)
	cond := blob.Cond{Match: etag}
	_, err = blob.WriteJSON(t.Context(), s.Artifacts, index.CurrentKey(), pointer, cond)
	require.NoError(t, err)
}

// rewrite gives a segment of rows that a change makes of another; a row that becomes nil is left out.
func (s *site) rewrite(
	t *testing.T, segment core.Segment, change func(at int, key string, value []byte) []byte,
) core.Segment {
	t.Helper()
	out, err := artifact.NewRows()
	require.NoError(t, err)
	defer out.Discard()
	at := 0
	for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
		require.NoError(t, err)
		if value := change(at, string(row.Key), row.Value); value != nil {
			out.Append(string(row.Key), value)
		}
		at++
	}
	written, _, err := out.StoreSegment(t.Context(), s.index(), segment.Part)
	require.NoError(t, err)
	return written
}

// Promises: 50.
func TestAnAuditOfWhatWasJustBuiltFindsNothing(t *testing.T) {
	for name, part := range map[string]core.Sample{"all": core.Everything, "a part": {Part: 2, Of: 3}} {
		s := newSite(t, sample(20))
		s.night(t)
		s.write(t, map[string]string{"place-003.md": "# Changed\n\nPort Alma 3 was given to Carla Ruiz in 1999.\n"})
		s.night(t) // a generation that re-uses vectors of another
		before := keysBelow(t, s.Artifacts, "")
		found, err := s.audit(t, part, false)
		require.True(t, err == nil && len(found.Drift) == 0 && found.Left <= 0, "%s: %+v, %v", name, found, err)
		after := keysBelow(t, s.Artifacts, "")
		assert.True(t, len(after) == len(before), "%s: there were %d objects, and are %d", name, len(before), len(after))
		manifest := s.current(t)
		if part.IsWhole() && (found.Checked.Classes != manifest.Counts.Classes ||
			found.Checked.Mentions != manifest.Counts.Mentions || found.Checked.Chunks != manifest.Counts.Chunks ||
			found.Checked.Documents != manifest.Counts.Documents || found.Checked.Records != manifest.Counts.Classes ||
			found.Checked.Vectors != manifest.Counts.Classes+manifest.Counts.Windows) {
			t.Errorf("looked at %+v of %+v", found.Checked, manifest.Counts)
		}
	}
}

// A generation of a release with another recipe of class texts has names and texts that the mentions do not come to any
// more: its rows and its content hash hold them.
// Promises: 50.
func TestAnAuditOfAnEarlierRecipeFindsNothing(t *testing.T) {
	s := newSite(t, sample(20))
	s.night(t)
	s.forge(t, func(manifest *core.Manifest) {
		manifest.Made.ClassText = "" // as releases left it that did not record it
		classes := s.folded(t, manifest)
		for i, segment := range manifest.Segments.Classes {
			manifest.Segments.Classes[i] = s.rewrite(t, segment, func(_ int, key string, value []byte) []byte {
				class, err := rows.DecodeClass(value)
				assert.NoError(t, err)
				made := classes[key]
				manifest.Hashes.Content.Sub(classmerge.Content(core.ID([]byte(key)), made))
				class.Text[0] ^= 1
				made.Text = class.Text
				manifest.Hashes.Content.Add(classmerge.Content(core.ID([]byte(key)), made))
				return class.Encode()
			})
		}
	})
	if found, err := s.audit(t, core.Everything, false); err != nil || len(found.Drift) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// folded makes the classes of a generation that all mentions of one split make.
func (s *site) folded(t *testing.T, manifest *core.Manifest) map[string]rows.Reduced {
	t.Helper()
	folds := map[string]*classmerge.Class{}
	for _, segment := range manifest.Segments.Mentions {
		for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
			require.NoError(t, err)
			mention, err := rows.DecodeMention(row.Value)
			require.NoError(t, err)
			key := string(row.Key)
			if folds[key] == nil {
				folds[key] = classmerge.BeginClass(core.ID(row.Key), s.spec)
			}
			folds[key].Add(mention)
		}
	}
	out := map[string]rows.Reduced{}
	for key, class := range folds {
		out[key] = class.End()
	}
	return out
}

// Promises: 50.
func TestThePartsOfAnAuditLookAtEverythingOnce(t *testing.T) {
	s := newSite(t, sample(40))
	s.shard = 10
	s.night(t)
	whole, err := s.audit(t, core.Everything, false)
	require.NoError(t, err)
	var sum core.Audited
	for part := 1; part <= 3; part++ {
		found, err := s.audit(t, core.Sample{Part: part, Of: 3}, false)
		require.NoError(t, err)
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
		s := newSite(t, sample(20))
		s.night(t)
		job := run.Job{Index: s.spec.Index, Generation: "audit-paused"}
		work := s.Bare(job, core.StageAudit, upkeep.AuditFolder)
		defer work.Close()
		parts, err := work.OpenAudit(t.Context(), core.Everything, repair)
		require.NoError(t, err)
		manifest := s.current(t)
		s.write(t, map[string]string{"place-003.md": "# Changed\n\nPort Alma 3 was given to Carla Ruiz in 1999.\n"})
		s.night(t)
		mark := collect.MarkKey(s.index(), manifest.Generation)
		_, err = blob.Write(t.Context(), s.Artifacts, mark, []byte("{}"), blob.Cond{})
		require.NoError(t, err)
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
		_, err = work.AuditPart(t.Context(), refused)
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
			for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
				require.NoError(t, err)
				class, err = rows.DecodeClass(row.Value)
				require.NoError(t, err)
				digest := rows.RecordDigest(class.Record)
				return core.RecordKey(manifest.Store, manifest.Index, core.ID(row.Key), digest), class
			}
		}
		t.Fatal("no class")
		return "", class
	}
	classes := func(t *testing.T, s *site, change func(at int, key string, value []byte) []byte) {
		t.Helper()
		s.forge(t, func(manifest *core.Manifest) {
			for i, segment := range manifest.Segments.Classes {
				if segment.Rows > 1 {
					manifest.Segments.Classes[i] = s.rewrite(t, segment, change)
					return
				}
			}
			t.Fatal("no partition has two classes")
		})
	}
	liveVector := func(t *testing.T, s *site) (collection, key string) {
		t.Helper()
		_, class := firstRecord(t, s)
		record, err := rows.DecodeRecord(class.Record)
		require.NoError(t, err)
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
		}, map[string]int64{core.DriftRecord: 1}, true, "something else"},
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
		}, map[string]int64{core.DriftVector: 1}, true, "something else"},
		"a collection is gone": {func(t *testing.T, s *site) {
			require.NoError(t, s.Vectors.Drop(t.Context(), s.current(t).Collections.Classes))
		}, nil, true, "missing"},
		"a file is damaged": {func(t *testing.T, s *site) {
			damages["flipped"](t, s.Artifacts, s.index().SegmentKey(s.current(t).Segments.Text[0].SHA256))
		}, map[string]int64{core.DriftSegment: 1}, false, "text"},
		"the mentions of a partition are gone": {func(t *testing.T, s *site) {
			for _, segment := range s.current(t).Segments.Mentions {
				if segment.Rows > 0 {
					damages["removed"](t, s.Artifacts, s.index().SegmentKey(segment.SHA256))
					return
				}
			}
		}, map[string]int64{core.DriftSegment: 1}, false, "rebuild"},
		"a row has another name": {func(t *testing.T, s *site) {
			classes(t, s, func(at int, _ string, value []byte) []byte {
				class, _ := rows.DecodeClass(value)
				record, err := rows.DecodeRecord(class.Record)
				assert.NoError(t, err)
				if at == 1 {
					record.Name += "s"
					class.Record = record.Encode()
				}
				return class.Encode()
			})
		}, map[string]int64{core.DriftClass: 1, core.DriftLive: 1}, false, "name"},
		"a mention is gone that its split counts": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) {
				segment := manifest.Segments.Mentions[0]
				known, cut := map[string]int{}, false
				manifest.Segments.Mentions[0] = s.rewrite(t, segment, func(_ int, key string, value []byte) []byte {
					if known[key]++; known[key] == 3 && !cut {
						cut = true
						return nil
					}
					return value
				})
			})
		}, map[string]int64{core.DriftClass: 1, core.DriftHash: 1}, false, "mentions"},
		"a row says another vector": {func(t *testing.T, s *site) {
			classes(t, s, func(at int, _ string, value []byte) []byte {
				class, _ := rows.DecodeClass(value)
				if at == 1 {
					class.Vector[0] ^= 1
				}
				return class.Encode()
			})
		}, map[string]int64{core.DriftClass: 1, core.DriftLive: 1}, false, "vector digest"},
		"a class has no row": {func(t *testing.T, s *site) {
			classes(t, s, func(at int, _ string, value []byte) []byte {
				if at == 1 {
					return nil
				}
				return value
			})
		}, map[string]int64{core.DriftClass: 1, core.DriftLive: 1}, false, "no row"},
		"a class has no mention": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) {
				for i, segment := range manifest.Segments.Mentions {
					if segment.Rows > 0 {
						first := ""
						manifest.Segments.Mentions[i] = s.rewrite(t, segment, func(at int, key string, value []byte) []byte {
							if at == 0 {
								first = key
							}
							if key == first {
								return nil
							}
							return value
						})
						return
					}
				}
			})
		}, map[string]int64{core.DriftClass: 1, core.DriftHash: 1}, false, "no mention"},
		"a document has lost a chunk": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) {
				segment := manifest.Segments.Documents[0]
				manifest.Segments.Documents[0] = s.rewrite(t, segment, func(at int, _ string, value []byte) []byte {
					document, err := rows.DecodeDocument(value)
					assert.NoError(t, err)
					if at == 0 {
						document.Chunks = document.Chunks[1:]
					}
					return document.Encode()
				})
			})
		}, map[string]int64{core.DriftDocument: 1, core.DriftHash: 1}, false, "chunks"},
		"the hash is another": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) { manifest.Hashes.Content.Add(core.Sum("x")) })
		}, map[string]int64{core.DriftHash: 1}, false, "content hash"},
		"a vectors segment is not named": {func(t *testing.T, s *site) {
			s.forge(t, func(manifest *core.Manifest) { manifest.Segments.ClassVecs = manifest.Segments.ClassVecs[1:] })
		}, map[string]int64{core.DriftVector: 1}, false, "segments hold"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(20))
			s.night(t)
			c.plant(t, s)
			found, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift) && found.Left != 0 && strings.Contains(err.Error(), c.says),
				"%+v, %v", found, err)
			if c.want != nil && fmt.Sprint(drift(found)) != fmt.Sprint(c.want) {
				t.Errorf("found %v, want %v: %+v", drift(found), c.want, found.Findings)
			}
			again, err := s.audit(t, core.Everything, false)
			require.True(t, fault.Is(err, fault.Drift) && fmt.Sprint(again.Drift) == fmt.Sprint(found.Drift),
				"an audit that only reads changed something: %+v, %v", again, err)
			repaired, err := s.audit(t, core.Everything, true)
			require.Equal(t, c.mended, err == nil, "repair: %+v, %v", repaired, err)
			if after, err := s.audit(t, core.Everything, false); (err == nil) != c.mended {
				t.Errorf("after the repair: %+v, %v", after, err)
			}
		})
	}
}

// Verifying a build compares the first vectors of a batch; one that differs at its end differs in nothing else.
// Promises: 50.
func TestAnAuditComparesEveryVector(t *testing.T) {
	s := newSite(t, sample(200))
	s.night(t)
	manifest := s.current(t)
	last := ""
	for _, segment := range manifest.Segments.Classes {
		for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
			require.NoError(t, err)
			class, err := rows.DecodeClass(row.Value)
			require.NoError(t, err)
			last = max(last, core.ClassRow(core.ID(row.Key), class.Vector))
		}
	}
	other := make([]float32, manifest.Class.Dimension)
	other[0] = 1
	require.NoError(t, s.Vectors.Delete(t.Context(), manifest.Collections.Classes, []string{last}))
	spoiled := []vectors.Row{{Key: last, Vector: other}}
	require.NoError(t, s.Vectors.Upsert(t.Context(), manifest.Collections.Classes, spoiled))
	found, err := s.audit(t, core.Everything, false)
	if !fault.Is(err, fault.Drift) || fmt.Sprint(drift(found)) != fmt.Sprint(map[string]int64{core.DriftVector: 1}) {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAnAuditOfNothingSaysSo(t *testing.T) {
	s := newSite(t, sample(1))
	if _, err := s.audit(t, core.Everything, false); !fault.Is(err, fault.UnknownIndex) {
		t.Error(err)
	}
}
