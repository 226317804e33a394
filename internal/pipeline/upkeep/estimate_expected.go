package upkeep

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// WriteExpected keeps what a build is expected to come to, for its report.
func WriteExpected(ctx context.Context, index artifact.Index, generation string, expected core.Estimate) error {
	_, err := blob.WriteJSON(ctx, index.Store, unit.ExpectedFile(index, generation), expected, blob.Cond{})
	return err
}
