// Package verify proves that the stores hold what a generation names. It reads back every record and row that the run
// wrote, and a bounded sample of those that the run re-used; of a store that lost its memory it reads back everything.
// It writes what is missing or wrong again from the segments, so that no model is called. Restore does the same for
// everything that the generation names.
package verify

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Kind says what is checked, and how closely.
type Kind string

// The kinds.
const (
	Records Kind = "records" // the records of a classes segment, each by its bytes
	Vectors Kind = "vectors" // the rows of a vectors segment, each by its key, and some by their vectors
	Sample  Kind = "sample"  // some rows of a vectors segment, and all of them when one is missing or wrong
)

// Unit is one segment to check: what one activity does.
type Unit struct {
	Kind       Kind         `json:"kind"`
	Segment    core.Segment `json:"segment"`
	Collection string       `json:"collection,omitempty"` // of vectors
	Dimension  int          `json:"dimension,omitempty"`
}

// Units lists everything that a generation has in the stores: checked one by one, they give back what a store has lost.
func Units(manifest *core.Manifest) []Unit {
	var out []Unit
	for _, segment := range manifest.Segments.Classes {
		out = append(out, Unit{Kind: Records, Segment: segment})
	}
	out = append(out, vectorUnits(manifest, Vectors)...)
	return out
}

// SampleUnits lists the vectors segments of a generation to be sampled, those first that come first for the seed:
// another seed begins with others, so that each has its turn in some night.
func SampleUnits(manifest *core.Manifest, seed string) []Unit {
	units := vectorUnits(manifest, Sample)
	place := func(unit Unit) core.Digest { return core.Sum("sample", seed, unit.Collection, unit.Segment.SHA256) }
	slices.SortFunc(units, func(a, b Unit) int {
		first, second := place(a), place(b)
		return bytes.Compare(first[:], second[:])
	})
	return units
}

// sampledUnits are looked at in one night, however many there are.
const sampledUnits = 32

// EachSample checks the first units, a bounded number of them, side by side, and all once one had to rewrite something.
func EachSample(
	ctx context.Context, units []Unit, check func(ctx context.Context, unit Unit) (Result, error),
) error {
	first := units[:min(len(units), sampledUnits)]
	var rewritten atomic.Int64
	each := func(units []Unit) error {
		return parallel.Each(ctx, len(units), batchesAtOnce, func(ctx context.Context, i int) error {
			found, err := check(ctx, units[i])
			rewritten.Add(found.Rewritten)
			return err
		})
	}
	if err := each(first); err != nil || rewritten.Load() == 0 {
		return err
	}
	return each(units[len(first):])
}

func vectorUnits(manifest *core.Manifest, kind Kind) []Unit {
	var out []Unit
	add := func(segments []core.Segment, collection string, dimension int) {
		for _, segment := range segments {
			out = append(out, Unit{Kind: kind, Segment: segment, Collection: collection, Dimension: dimension})
		}
	}
	add(manifest.Segments.ClassVecs, manifest.Collections.Classes, manifest.Class.Dimension)
	add(manifest.Segments.ChunkVecs, manifest.Collections.Chunks, manifest.Chunk.Dimension)
	return out
}

// In is what one activity works on. OnProgress receives keys checked; nil is allowed.
type In struct {
	Artifacts artifact.Index
	Manifest  *core.Manifest
	Unit      Unit
	Classes   records.Store
	Vectors   vectors.Store
	// Live, where it is set, leaves out rows that are no longer live in the generation: vectors segments live longer
	// than their rows, and a row that was swept is not lost. Without it every row of the segment is wanted.
	Live Table
	// Within, where it is set, is asked whether the rows of a class or chunk are to be checked.
	Within func(id core.ID) bool
	// Compare has every vector of a segment compared with its row, and not some of each batch alone.
	Compare bool
	// ReadOnly has nothing written: what is missing or wrong is only counted and reported.
	ReadOnly bool
	// Found, where it is set, receives each record and row that is missing or wrong.
	Found func(Finding)
	// Seed chooses the rows of a sample.
	Seed       string
	OnProgress func(core.Progress)
}

// Table says what counts in a generation, by id; see segments.Table.
type Table interface {
	FindClass(id core.ID) (segments.Class, bool)
	FindChunk(id core.ID) (segments.Chunk, bool)
}

// Finding is a record or row that is missing in its store, or another than was written.
type Finding struct {
	Key   string
	Wrong bool // it is there
}

// Result counts what was checked, what was missing or wrong and was rewritten, and what was left as it was (ReadOnly).
type Result struct {
	Checked   int64 `json:"checked"`
	Differing int64 `json:"differing,omitempty"`
	Rewritten int64 `json:"rewritten"`
}

func (in In) reportFinding(key string, wrong bool) {
	if in.Found != nil {
		in.Found(Finding{key, wrong})
	}
}

// Run checks one unit. It may be repeated.
func Run(ctx context.Context, in In) (Result, error) {
	switch in.Unit.Kind {
	case Records:
		return checkRecords(ctx, in)
	case Vectors:
		return checkVectors(ctx, in, in.Compare)
	case Sample:
		return checkSample(ctx, in)
	}
	return Result{}, fault.Internal.At("verify", string(in.Unit.Kind)).Because("a unit is records, vectors or a sample")
}

func (in In) reportProgress(res Result) {
	stage.ReportProgress(in.OnProgress, core.Progress{Stage: "verify", Done: res.Checked})
}

// batchKeys are asked for at once.
const batchKeys = 1000

// batchesAtOnce are asked for side by side.
const batchesAtOnce = 8

func checkRecords(ctx context.Context, in In) (Result, error) {
	var res Result
	read := int64(0)
	wanted := parallel.Batch(in.wantedRecords(ctx, &read), batchKeys)
	for one, err := range parallel.MapOrdered(ctx, batchesAtOnce, wanted, in.compareRecords) {
		if err != nil {
			return res, err
		}
		res.Checked += one.checked
		if differing := int64(len(one.differing)); in.ReadOnly {
			res.Differing += differing
		} else {
			res.Rewritten += differing
		}
		for _, finding := range one.differing {
			in.reportFinding(finding.Key, finding.Wrong)
		}
		in.reportProgress(res)
	}
	return res, in.checkComplete(read)
}

// compared is what came of some records.
type compared struct {
	checked   int64
	differing []Finding
}

// compareRecords looks some records up, and writes those that are missing or wrong unless nothing may be written.
func (in In) compareRecords(ctx context.Context, want []records.Record) (compared, error) {
	out := compared{checked: int64(len(want))}
	keys := make([]string, len(want))
	for i, record := range want {
		keys[i] = record.Key
	}
	stored, err := in.Classes.GetRecords(ctx, keys)
	if err != nil {
		return out, err
	}
	var lost []records.Record
	for i, value := range stored {
		if string(value) != string(want[i].Value) {
			lost = append(lost, want[i])
			out.differing = append(out.differing, Finding{want[i].Key, value != nil})
		}
	}
	if len(lost) > 0 && !in.ReadOnly {
		err = in.Classes.PutRecords(ctx, lost)
	}
	return out, err
}

// wantedRecords gives the records that the unit's segment names and that count; read counts its rows.
func (in In) wantedRecords(ctx context.Context, read *int64) iter.Seq2[records.Record, error] {
	return func(yield func(records.Record, error) bool) {
		segment := in.Artifacts.SegmentKey(in.Unit.Segment.SHA256)
		for row, err := range artifact.ScanAll(ctx, in.Artifacts.Store, segment) {
			var record *records.Record
			if err == nil {
				*read++
				record, err = in.wantedRecord(row)
			}
			if err != nil {
				yield(records.Record{}, err)
				return
			}
			if record != nil && !yield(*record, nil) {
				return
			}
		}
	}
}

// wantedRecord returns the record of a row; nil where it does not count.
func (in In) wantedRecord(row artifact.Row) (*records.Record, error) {
	if in.Within != nil && !in.Within(core.ID(row.Key)) {
		return nil, nil
	}
	class, err := rows.DecodeClass(row.Value)
	if err != nil {
		return nil, err
	}
	digest := rows.RecordDigest(class.Record)
	if in.Live != nil { // a segment lives longer than its rows
		if counts, ok := in.Live.FindClass(core.ID(row.Key)); !ok || counts.Record != digest {
			return nil, nil
		}
	}
	key := core.RecordKey(in.Manifest.Store, in.Manifest.StoredIndex(), core.ID(row.Key), digest)
	return &records.Record{Key: key, Value: class.Record}, nil
}

// checkComplete refuses a segment that gave another number of rows than it has: what it does not give cannot be missed
// in a store.
func (in In) checkComplete(read int64) error {
	if read == in.Unit.Segment.Rows {
		return nil
	}
	key := in.Artifacts.SegmentKey(in.Unit.Segment.SHA256)
	return fault.SegmentDamage.At("read segment", in.Artifacts.Store.Location(key)).
		Because(fmt.Sprintf("it gives %d of %d rows", read, in.Unit.Segment.Rows)).
		Advise("publish another generation, or rebuild the index")
}
