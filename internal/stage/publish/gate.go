package publish

import (
	"fmt"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
)

// Reasons why a build is held.
const (
	FailureBudget = "failure_budget"
	MassDeletion  = "mass_deletion"
	Empty         = "empty"
	SizeJump      = "size_jump"
	CostJump      = "cost_jump"
	LabelsOff     = "labels_off"
)

// Documents counts the documents of a build.
type Documents struct {
	Readable int64 // gave their chunks
	Failed   int64 // cannot be used, though they should; also where what was there before is kept
	Parent   int64 // of the generation before that had content; 0: there is none
	Lapsed   int64 // of these, the ones that failed
}

// Chunks counts the chunks of a build.
type Chunks struct {
	Total  int64
	Failed int64 // without an extraction: dead letters
	Parent int64 // of the generation before
	Lapsed int64 // of these, the ones of documents that failed
}

// CheckGeneration looks at a built generation and says why it must not be published, or nothing. Documents and chunks
// are measured apart, and against the build as well as against what the generation before had: one document is as many
// chunks as is not known, and what fails among a few old documents must not drown in many new ones.
func CheckGeneration(spec core.Spec, documents Documents, chunks Chunks) (reason, detail string) {
	budget := spec.Failures
	if budget.DocumentsShare == 0 {
		budget.DocumentsShare = budget.Share
	}
	if documents.Parent == 0 && chunks.Parent == 0 {
		budget.DocumentsShare = max(budget.DocumentsShare, firstShare)
	}
	all := documents.Readable + documents.Failed
	if exceedsBudget(budget, documents.Failed, all, budget.DocumentsShare) {
		detail = formatExceeded(spec, "documents failed", documents.Failed, all, budget.DocumentsShare, "documents_share")
		if documents.Parent > 0 {
			detail += fmt.Sprintf("; the previous generation had %d", documents.Parent)
		}
		return FailureBudget, detail
	}
	if exceedsBudget(budget, documents.Lapsed, documents.Parent, budget.DocumentsShare) {
		return FailureBudget, formatExceeded(spec, "documents of the previous generation failed", documents.Lapsed,
			documents.Parent, budget.DocumentsShare, "documents_share")
	}
	// How many may fail is a number of documents also here: a long one is hundreds of chunks.
	if canHoldRun(budget, documents.Lapsed) && exceedsShare(budget.DocumentsShare, chunks.Lapsed, chunks.Parent) {
		return FailureBudget, fmt.Sprintf("%d of %d passages of the previous generation belong to documents that failed "+
			"(%.3g %%); at most %.3g %%, or those of %d documents, may (indexes.%s.failures: documents_share, count, floor)",
			chunks.Lapsed, chunks.Parent, percentOf(chunks.Lapsed, chunks.Parent), 100*budget.DocumentsShare,
			countTolerated(budget), spec.Index)
	}
	if exceedsBudget(budget, chunks.Failed, chunks.Total, budget.Share) {
		return FailureBudget, formatExceeded(spec, "passages failed", chunks.Failed, chunks.Total, budget.Share, "share")
	}
	if chunks.Total == 0 {
		return Empty, "no document of the corpus produced a passage"
	}
	return "", ""
}

// firstShare of the documents may fail in a first build: it replaces nothing, so what can be read is worth serving.
const firstShare = 0.5

// defaultFloor is how many failures never hold a run: in a small corpus one failure is a large share.
const defaultFloor = 5

// floorOf returns the floor of a budget.
func floorOf(budget core.Failures) int64 {
	if budget.Floor == 0 {
		return defaultFloor
	}
	return int64(budget.Floor)
}

// countTolerated returns how many failures never hold a run.
func countTolerated(budget core.Failures) int64 { return max(floorOf(budget)-1, int64(budget.Count)) }

// canHoldRun reports whether so many failures can hold a run at all.
func canHoldRun(budget core.Failures, failed int64) bool {
	return failed > countTolerated(budget)
}

func exceedsShare(share float64, failed, all int64) bool { return float64(failed) > share*float64(all) }

func exceedsBudget(budget core.Failures, failed, all int64, share float64) bool {
	return canHoldRun(budget, failed) && exceedsShare(share, failed, all)
}

// formatExceeded gives the numbers, what would be let through, and the settings that say so.
func formatExceeded(spec core.Spec, what string, failed, all int64, share float64, setting string) string {
	return fmt.Sprintf(
		"%d of %d %s (%.3g %%); at most %.3g %%, or %d of them, may fail (indexes.%s.failures: %s, count, floor)",
		failed,
		all,
		what,
		percentOf(failed, all),
		100*share,
		countTolerated(spec.Failures),
		spec.Index,
		setting,
	)
}

func percentOf(part, all int64) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}

// CheckRemoval says why a corpus that lost so many documents must not be built, or nothing; it is known before anything
// is paid. Removed counts keys of the parent that are gone; moved of them stand under another key with the same
// content, and are not lost. Reasons are why all is made again.
func CheckRemoval(
	spec core.Spec, removed, moved, parentDocuments int64, reasons []string,
) (reason, detail string) {
	gone := removed - moved
	if parentDocuments <= 0 || float64(gone) <= spec.Gate.MaxRemoved*float64(parentDocuments) {
		return "", ""
	}
	detail = fmt.Sprintf(
		"%d of %d documents are gone (%.3g %%); at most %.3g %% may go in one run (indexes.%s.gate.max_removed)",
		gone, parentDocuments, percentOf(gone, parentDocuments), 100*spec.Gate.MaxRemoved, spec.Index,
	)
	if slices.Contains(reasons, core.AttachmentsOff) {
		detail += "; all attachments of mail and PDFs are among them, as documents.attachments was switched off"
	}
	return MassDeletion, detail
}

// CheckLabels says why a generation must not be published unseen whose documents have no labels, where those of its
// parent have, or nothing. parent is nil where there is none.
func CheckLabels(spec core.Spec, parent *core.Manifest, documents int64) (reason, detail string) {
	if parent == nil || !parent.Labelled || spec.ReadAs().Labels.IsOn() {
		return "", ""
	}
	return LabelsOff, fmt.Sprintf("labels are turned off: everybody who may read the index may read all %d documents "+
		"(indexes.%s.documents.labels); without it this is published only by: unweaver publish", documents, spec.Index)
}

// CheckJump says why a run that is out of proportion with the generation before must not be published unseen, or
// nothing: its chunks are many more or fewer, or it cost more than such a run may. A first build has nothing to be
// measured by.
func CheckJump(spec core.Spec, chunks, parentChunks int64, cost float64) (reason, detail string) {
	if parentChunks <= 0 {
		return "", ""
	}
	if most := spec.Gate.MaxSizeChange; most > 0 {
		change := float64(chunks-parentChunks) / float64(parentChunks)
		if max(change, -change) > most {
			return SizeJump, fmt.Sprintf("it has %d passages, the generation before had %d (%+.3g %%); at most %.3g %% more or "+
				"fewer are published unseen (indexes.%s.gate.max_size_change)", chunks, parentChunks, 100*change, 100*most,
				spec.Index)
		}
	}
	if most := spec.Gate.MaxCost; most > 0 && cost > most {
		return CostJump, fmt.Sprintf("it cost %.4f; at most %.4f is published unseen (indexes.%s.gate.max_cost)", cost, most,
			spec.Index)
	}
	return "", ""
}
