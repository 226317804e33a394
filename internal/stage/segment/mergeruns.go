package segment

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// MergedRun is what takes the place of some class runs: one of the rows of them that count, with one classes segment,
// whose part is 0.
type MergedRun struct {
	Run     core.Run
	Classes core.Segment
	Fresh   int64
}

// MergeRuns writes the rows of class runs that count into one, which is read back and compared.
func MergeRuns(ctx context.Context, in MergeIn) (MergedRun, error) {
	var out MergedRun
	var sum core.SetHash
	classes, err := artifact.NewRows()
	if err != nil {
		return out, err
	}
	defer classes.Discard()
	var streams []iter.Seq2[artifact.Row, error]
	for _, number := range in.Which {
		streams = append(streams, in.classesOf(ctx, number))
	}
	done := int64(0)
	for row, err := range merge.MergeStreams(ctx, artifact.Row.CompareKeys, streams...) {
		if err != nil {
			return out, err
		}
		class, err := rows.DecodeClass(row.Value)
		if err != nil {
			return out, err
		}
		classes.Append(string(row.Key), row.Value)
		sum.Add(classEntry(core.ID(row.Key), class.Vector.Prefix(), rows.RecordDigest(class.Record)))
		if done++; done%256 == 0 {
			in.OnProgress(done)
		}
	}
	var fresh bool
	if out.Classes, fresh, err = classes.StoreSegment(ctx, in.Artifacts, 0); err != nil {
		return out, err
	}
	if fresh {
		out.Fresh++
	}
	made, expect, fresh, err := ClassRun(ctx, ClassRunIn{
		Artifacts: in.Artifacts, Spec: in.Spec, Classes: []core.Segment{out.Classes}, OnProgress: in.OnProgress,
	})
	if err != nil {
		return out, err
	}
	if fresh {
		out.Fresh++
	}
	made.Rows = int64(expect.Classes)
	out.Run = core.Run{Segment: made, Parts: 1}
	return out, in.compareRun(ctx, out.Run, sum)
}

func classEntry(id core.ID, vector core.DigestPrefix, record core.Digest) core.Digest {
	return core.Sum("class", id.String(), vector.String(), record.String())
}

// classesOf gives the rows of a run that count.
func (in MergeIn) classesOf(ctx context.Context, number int) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		one := in.Listed.Runs[number]
		parts, err := segments.SelectParts(in.Listed.Classes, "classes", one.Classes, one.Parts)
		if err != nil {
			yield(artifact.Row{}, err)
			return
		}
		dead, place := in.Files.DeadRows(one.SHA256), -1
		for row, err := range scanSegments(ctx, in.Artifacts, parts) {
			place++
			if err == nil && dead != nil && place < int(one.Rows) && dead(place) {
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (in MergeIn) compareRun(ctx context.Context, run core.Run, want core.SetHash) error {
	file, done, err := readMapped(ctx, in, run.SHA256, func(path string) (*classrun.File, error) {
		return classrun.Open(path, classrun.Expect{Analyser: languageOf(in.Spec).Analyser(), Classes: int(run.Rows)})
	})
	if err != nil {
		return err
	}
	defer done()
	var sum core.SetHash
	for i := range file.Rows {
		sum.Add(classEntry(file.Rows[i].ID, file.Rows[i].Vector, file.Rows[i].Record))
	}
	if sum != want {
		return refusedMerge("class runs", run.SHA256, in.Artifacts)
	}
	return nil
}

func (in MergeIn) readSplit(ctx context.Context, one core.Split) (*split.File, func(), error) {
	return readMapped(ctx, in, one.SHA256, func(path string) (*split.File, error) {
		return split.Open(path, split.Expect{
			Analyser:  languageOf(in.Spec).Analyser(),
			Documents: int(one.Documents), Chunks: int(one.Chunks), Classes: int(one.Classes),
		})
	})
}

// readMapped copies a segment from its store and maps it.
func readMapped[T interface{ Close() }](
	ctx context.Context, in MergeIn, sha string, open func(path string) (T, error),
) (T, func(), error) {
	return localfile.Acquire(ctx, in.Cache, in.Artifacts.Store, in.Artifacts.SegmentKey(sha), sha, open)
}
