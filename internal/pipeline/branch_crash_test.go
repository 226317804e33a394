package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// dying is a store whose process dies at a write: that one, and all after it, do not happen.
type dying struct {
	blob.Store
	left atomic.Int64
}

var errDied = errors.New("the process died")

func (d *dying) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	if d.left.Add(-1) < 0 {
		return blob.Info{}, errDied
	}
	return d.Store.Put(ctx, key, body, n, c)
}

func (d *dying) Delete(ctx context.Context, key string) error {
	if d.left.Add(-1) < 0 {
		return errDied
	}
	return d.Store.Delete(ctx, key)
}

// A process dies at each write of a command in turn; then nights of both indexes collect all that they may, and the
// same command is given again.
// Promises: 43.
func TestABranchOrAPromoteThatDiedAtAnyWriteIsFinishedByTheSameCommand(t *testing.T) {
	for _, action := range []string{core.ActionBranch, core.ActionPromote} {
		t.Run(action, func(t *testing.T) {
			writes := func(t *testing.T, at int64) (made int64) {
				s := branchSite(t)
				s.spec.Keep, s.spec.Grace = 1, 0
				whole := s.Artifacts
				if action == core.ActionPromote {
					_, err := s.branch(t, "exp", nil)
					require.NoError(t, err)
					s.on("exp", 200)
					s.night(t)
				}
				died := &dying{Store: whole}
				died.left.Store(at)
				s.Artifacts = artifact.NewBranched(died)
				do := func() error {
					if action == core.ActionBranch {
						_, err := s.branch(t, "exp", nil)
						return err
					}
					_, err := s.promote(t, "exp")
					return err
				}
				failed := do()
				s.Artifacts = artifact.NewBranched(whole)
				again := failed
				if failed != nil {
					require.ErrorIs(t, failed, errDied, "at write %d", at)
					s.on("docs", 4000)
					if action == core.ActionPromote {
						s.on("exp", 200) // a night of the base would have the branch build again
					}
					s.night(t)
					again = do()
				}
				if fault.Is(again, fault.Usage) { // the last write says how it ended: the branch is there already
					again = nil
				}
				require.NoError(t, again, "again after write %d", at)
				s.entire(t, "exp")
				s.entire(t, "docs")
				branches, err := release.ListBranches(t.Context(), artifact.New(s.Artifacts, "docs"))
				assert.True(t, err == nil && len(branches) == 1 && branches[0].State == core.BranchOpen,
					"at write %d: branches %+v, %v", at, branches, err)
				return at - died.left.Load()
			}
			var all int64
			synctest.Test(t, func(t *testing.T) { all = writes(t, 1<<20) })
			require.True(t, all >= 4, "it takes %d writes only", all)
			for at := range all {
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { writes(t, at) })
				})
			}
		})
	}
}
