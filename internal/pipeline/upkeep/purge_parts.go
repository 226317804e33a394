package upkeep

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// purgeLedger takes out of the ledger what was paid for the documents alone. It gives how many entries went, and how
// many stay as a generation of some index lists them for others.
func (p *purging) purgeLedger(ctx context.Context, traces *purges.Traces) (removed, shared int64, err error) {
	indexes, err := unit.IndexesOf(ctx, p.Artifacts)
	if err != nil {
		return 0, 0, err
	}
	watched := ledger.WithAlive(ctx, p.Progress.Touch)
	for _, task := range ledger.Tasks() {
		keys := maps.Clone(traces.Keys[task])
		if len(keys) == 0 {
			continue
		}
		for key, err := range collect.ListKeys(watched, indexes, task) {
			if err != nil {
				return removed, shared, err
			}
			if keys[key] {
				shared++
				delete(keys, key)
			}
		}
		if err := p.GuardLease(ctx); err != nil {
			return removed, shared, err
		}
		count, err := p.Ledger.Remove(watched, task, keys, time.Now())
		removed += count
		if err != nil {
			return removed, shared, err
		}
	}
	if !traces.Unlisted {
		return removed, shared, nil
	}
	for _, task := range ledger.OfEnrichments() { // nothing says which of these are of the documents: all of them go
		if err := p.GuardLease(ctx); err != nil {
			return removed, shared, err
		}
		count, err := p.Ledger.Forget(watched, task, time.Now())
		removed += count
		if err != nil {
			return removed, shared, err
		}
	}
	return removed, shared, nil
}

// purgeLetters takes dead letters of the documents out of the folders of all runs, and the documents out of the
// problems that their reports list.
func (p *purging) purgeLetters(ctx context.Context, documents purges.Set) (count int64, err error) {
	var dead []string
	runs := map[string]bool{} // that a report was kept of, or that gave a generation which is gone
	for _, traces := range p.traces {
		maps.Copy(runs, traces.Holders)
	}
	prefix := p.index.GenerationKey("", "") + "/"
	for info, err := range p.index.Store.List(ctx, prefix, "") {
		if err != nil {
			return count, err
		}
		generation, file, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		runs[generation] = true
		switch {
		case strings.HasPrefix(info.Key, extract.DeadLetterKey(p.index, generation, "")):
			var letter extract.DeadLetter
			_, err := blob.ReadJSON(ctx, p.index.Store, info.Key, &letter)
			if err != nil && !artifact.IsDamage(err) {
				return count, err
			}
			if err != nil || documents.Has(letter.Document) {
				dead = append(dead, info.Key)
			}
		case file == plan.ProblemsName, file == artifact.WatchedName:
			n, err := p.purgeLines(ctx, info.Key, documents)
			if count += n; err != nil {
				return count, err
			}
		case info.Key == p.index.ReportKey(generation):
			n, err := p.purgeReport(ctx, generation, documents)
			if count += n; err != nil {
				return count, err
			}
		}
		p.Progress.Touch()
	}
	n, err := p.purgeStates(ctx, runs, documents)
	if count += n; err != nil {
		return count, err
	}
	return count + int64(len(dead)), p.deleteGuarded(ctx, dead)
}

// purgeChoices takes the names of the documents out of what backfills were begun for. One that is begun meanwhile is
// looked at again.
func (p *purging) purgeChoices(ctx context.Context, documents purges.Set) error {
	prefix := p.index.BackfillKey("", "") + "/"
	for listed, err := range p.index.Store.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		if path.Base(listed.Key) != run.BackfillBegun {
			continue
		}
		for again := true; again; {
			var begun core.Backfill
			info, err := blob.ReadJSON(ctx, p.index.Store, listed.Key, &begun)
			if artifact.IsDamage(err) || fault.Is(err, fault.NotFound) {
				break
			}
			if err != nil {
				return err
			}
			before := begun.Choice.Purged
			if begun.Choice = begun.Choice.DropPurged(documents.Has); begun.Choice.Purged == before {
				break
			}
			if err := p.GuardLease(ctx); err != nil {
				return err
			}
			_, err = blob.WriteJSON(ctx, p.index.Store, listed.Key, begun, blob.Cond{Match: info.ETag})
			if again = fault.Is(err, fault.Precondition); err != nil && !again {
				return err
			}
		}
		p.Progress.Touch()
	}
	return nil
}

// purgeLines writes a list of problems, or of changes of standing questions, without those of the documents.
func (p *purging) purgeLines(ctx context.Context, key string, documents purges.Set) (int64, error) {
	raw, _, err := blob.Read(ctx, p.index.Store, key)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var out strings.Builder
	dropped := int64(0)
	for line := range strings.Lines(string(raw)) {
		var one struct {
			core.Problem
			core.WatchedChange
		}
		if json.Unmarshal([]byte(line), &one) == nil && (documents.Has(one.Object) || one.Names(documents.Has)) {
			dropped++
			continue
		}
		out.WriteString(line)
	}
	if dropped == 0 {
		return 0, nil
	}
	_, err = blob.Write(ctx, p.index.Store, key, []byte(out.String()), blob.Cond{})
	return dropped, err
}

// purgeReport writes a report without the problems and passages of the documents, and what people read of it again.
func (p *purging) purgeReport(ctx context.Context, generation string, documents purges.Set) (int64, error) {
	report, err := p.index.ReadReport(ctx, generation)
	if artifact.IsDamage(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	dropped := report.DropDocuments(documents.Has)
	if dropped == 0 {
		return 0, nil
	}
	return dropped, release.WriteReports(ctx, p.index, generation, report)
}
