package plan

import (
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Why a document is made, or is not. One that is made again for what else changed has those reasons instead.
const (
	DecidedAdded   = "added"
	DecidedChanged = "changed"
	DecidedMoved   = "moved" // decided by who compares what was added with what left
	DecidedRemoved = "removed"
	DecidedAliases = "aliases"          // the same bytes, with a name whose aliases changed
	DecidedRetry   = "retry"            // the same bytes, whose failure may have gone
	DecidedSidecar = "metadata changed" // the same bytes, with other metadata beside them
	DecidedTouched = "written again"    // the same bytes, under another time or object
	DecidedAgain   = "all is made"      // the same; the parent, or what was asked for, leaves nothing to re-use
	DecidedPurged  = "purged"           // it was purged, and is left out whatever the corpus has
	DecidedFailed  = "cannot be read"   // what the parent has of it is kept
	DecidedSame    = "nothing changed"  // it stays where it is
)

// Decision is what the plan says about one document.
type Decision struct {
	Key     string
	Reason  string // one of the above, or why everything is made again
	Made    bool   // it goes through the build; what failed does too, and keeps what the parent has
	Version core.Digest
	Was     core.Digest // of the parent; zero: it does not have it
	Chunks  int         // that the parent has of it
	Detail  string      // of a failure
}

// reportDecision says what was decided of a listed document. It is asked once the document is counted.
func (p *planner) reportDecision(doc *planned, made bool) {
	if p.OnDecision == nil {
		return
	}
	reported := Decision{Key: doc.key, Made: made, Version: doc.row.Version, Chunks: len(doc.old.Chunks)}
	if doc.known {
		reported.Was = doc.old.ListedVersion()
	}
	switch {
	case doc.row.Problem != "":
		reported.Reason, reported.Detail = DecidedFailed, doc.row.Problem
		if doc.bad != nil {
			reported.Detail = fmt.Sprintf("%s: %s", fault.CodeOf(doc.bad), doc.bad)
		}
	case !made:
		reported.Reason = DecidedSame
	case doc.isSame() && doc.hasNewSidecar():
		reported.Reason = DecidedSidecar
	case doc.isSame() && p.isRenamed(doc):
		reported.Reason = DecidedAliases
	case doc.isSame() && (p.isRetried(doc) || doc.old.Problem != ""):
		reported.Reason = DecidedRetry
	case doc.isSame() && len(p.Reasons) > 0:
		reported.Reason = strings.Join(p.Reasons, "; ")
	case doc.isSame() && p.Part:
		reported.Reason = DecidedTouched
	case doc.isSame():
		reported.Reason = DecidedAgain
	case doc.known:
		reported.Reason = DecidedChanged
	default:
		reported.Reason = DecidedAdded
	}
	p.OnDecision(reported)
}

// decideGone reports a document of the parent that is not listed any more.
func (p *planner) decideGone(key string, old rows.Document) {
	if p.OnDecision != nil {
		p.OnDecision(Decision{Key: key, Reason: DecidedRemoved, Was: old.Version, Chunks: len(old.Chunks)})
	}
}
