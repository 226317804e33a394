package release

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// readExpected returns what Expect kept; nil: nothing. It is for the report alone: a damaged one counts as none.
func (r *Run) readExpected(ctx context.Context) (*core.Estimate, error) {
	var out core.Estimate
	_, err := blob.ReadJSON(ctx, r.Artifacts, unit.ExpectedFile(r.Index, r.Generation), &out)
	switch {
	case fault.Is(err, fault.NotFound) || artifact.IsDamage(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &out, nil
}
