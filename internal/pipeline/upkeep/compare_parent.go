package upkeep

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// CompareParent reports, when all units are cut, if a build came to what its parent is: it only tried again documents
// whose bytes are the same, and they failed as they did. It then ends as a night on which nothing changed, with this
// status.
func (r *Run) CompareParent(ctx context.Context) (status string, equal bool, err error) {
	defer func() { err = r.ReusedDamage(err) }()
	fixed, err := run.PlanFile.Read(ctx, r.Scratch)
	if err != nil || !fixed.Plan.Again || fixed.Rebuild || len(fixed.Damage) > 0 {
		return "", false, err
	}
	parent, err := r.ReadParent(ctx, fixed.Parent)
	if err != nil || parent == nil {
		return "", false, err
	}
	if parent.Limits != r.Limits.Key() { // only a publication keeps these: the next night would try again what they refuse
		return "", false, nil
	}
	if parent.Counts.Untranscribed > 0 && r.Attempt > parent.Round { // and the number of the round: the next is later
		return "", false, nil
	}
	if !fixed.Part { // of another corpus: what is published names it
		return "", false, nil
	}
	if equal, err = r.alikePart(ctx, fixed, parent); err != nil || !equal {
		return "", false, err
	}
	if status, err = r.ReadQuietStatus(ctx, fixed); err != nil {
		return "", false, err
	}
	return status, true, r.KeepProblems(ctx, len(fixed.Plan.Units))
}

// alikePart reports whether the rows of all documents that were made again are the parent's, but for where their texts
// lie: of equal chunks, as their ids tell, the texts are equal.
func (r *Run) alikePart(ctx context.Context, fixed run.Plan, parent *core.Manifest) (bool, error) {
	dead, release, err := r.OpenTombs(ctx, parent)
	defer release()
	if err != nil {
		return false, err
	}
	was, stop := iter.Pull2(stored.StreamDocuments(ctx, r.Index, parent.Segments, dead))
	defer stop()
	for chunked, err := range run.ReadEach(ctx, r.BaseRun(), len(fixed.Plan.Units), run.ChunkFile) {
		if err != nil {
			return false, err
		}
		for row, err := range artifact.ScanAll(ctx, r.Artifacts, r.Index.SegmentKey(chunked.Documents.SHA256)) {
			if err != nil {
				return false, err
			}
			former, err, more := was()
			for ; more && err == nil && string(former.Key) < string(row.Key); former, err, more = was() {
				r.Progress.Touch()
			}
			if err != nil || !more || string(former.Key) != string(row.Key) {
				return false, err
			}
			if same, err := sameDocument(former.Value, row.Value); err != nil || !same {
				return false, err
			}
		}
	}
	return true, nil
}

func sameDocument(a, b []byte) (bool, error) {
	was, err := rows.DecodeDocument(a)
	if err != nil {
		return false, err
	}
	is, err := rows.DecodeDocument(b)
	was.Frame, is.Frame = 0, 0
	return err == nil && string(was.Encode()) == string(is.Encode()), err
}
