package release

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

// tellingEvery is how often what calls of a unit fail with is written down, at most.
const tellingEvery = 5 * time.Second

// tellingPatience is how long writing it down may take.
const tellingPatience = 3 * time.Second

// WithTrouble shows in the status why a unit does not get on while its model calls are repeated in place: a server that
// hangs would say nothing for as long as the unit tries. The key is that of ShowProblem; shown reports whether it is
// there.
func (r *Run) WithTrouble(ctx context.Context, key string) (telling context.Context, shown func() bool) {
	var mu sync.Mutex
	var last time.Time // zero: nothing is shown
	notify := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		over := err == nil && !last.IsZero()
		due := fault.Is(err, fault.ModelUnavailable) && time.Since(last) >= tellingEvery
		if !over && !due {
			return
		}
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellingPatience)
		defer cancel()
		if over {
			if r.Coordination.SetProblem(writing, r.Name(), key, nil) == nil {
				last = time.Time{}
			}
			return
		}
		last = time.Now()
		r.ShowProblem(writing, key, core.Problem{
			Code: string(fault.CodeOf(err)), Object: r.Stage, Detail: err.Error() + "; it is tried again",
		})
	}
	return retry.WithNotify(ctx, notify), func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !last.IsZero()
	}
}
