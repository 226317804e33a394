package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Failure is the text of an error, stored beside the run, so that the engine's history holds only where it lies.
type Failure struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Ending is how a run ends, or that it pauses.
type Ending struct {
	Status    string
	Reason    string
	Ref       string // of the Failure
	Detail    string // its text, where there is no file of it
	Unchanged bool
	Waiting   *core.Waiting // of a run that waits
	Warning   *Warning      // of a build that did what it was for
}

// Warning is a failure that does not make its run fail; Ref is of its text.
type Warning struct{ Code, Object, Ref string }

// FillAccount puts into a report what was paid for and what was written.
func (a Account) FillAccount(report *core.Report) {
	report.Calls, report.LedgerHits, report.Tokens = a.Calls, a.Hits, a.Tokens
	report.Cost, report.Written, report.Retries = a.Cost, a.Written, a.listRetries()
	report.EntitiesCut, report.UsageDoubted, report.LedgerDamage = a.Cut, a.Doubted, a.Damaged
	report.Unsettled = core.Spent{Calls: a.InFlight, Tokens: a.Expected, Cost: a.Risk}
}

// ResolveDetail resolves the reference of an error.
func (r *Run) ResolveDetail(ctx context.Context, ending Ending) string {
	if ending.Ref == "" && ending.Status == core.StatusHeld {
		held, err := HeldFile.Read(ctx, r.Scratch)
		if err == nil && held.Code == ending.Reason {
			return held.Text
		}
		return ""
	}
	if ending.Ref == "" {
		return ending.Detail
	}
	var failure Failure
	if _, err := blob.ReadJSON(ctx, r.Artifacts, ending.Ref, &failure); err != nil {
		return ""
	}
	return failure.Text
}
