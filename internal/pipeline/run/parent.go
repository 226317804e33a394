package run

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Checks says how much of the generation before a night reads, to see whether it is as it was written. That each of its
// segments is there, and how long, is looked at every night. Tests alone set it.
type Checks struct {
	Bytes int64            // at least so much is read in a night, where there is as much; zero: 256 MiB
	Now   func() time.Time // nil: time.Now
}

const (
	checkNights uint64 = 7 // every segment is read once in so many nights
	checkBytes         = 256 << 20
)

// CheckWidth is how many segments are read at once.
const CheckWidth = 4

// Damage is a stored object that is not as it was written.
type Damage struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // sha256 of a segment, else a key
	Why    string `json:"why"`    // missing, cut, damaged
}

// ShortName names the object in a sentence.
func (d Damage) ShortName() string {
	if len(d.Object) == 2*len(core.Digest{}) {
		return "segment " + d.Object[:12]
	}
	return d.Object
}

func (d Damage) formatReason() string {
	return fmt.Sprintf("%s (%s) of the parent generation is %s: everything is rebuilt", d.ShortName(), d.Kind, d.Why)
}

// Problem returns the damage as a report shows it.
func (d Damage) Problem() core.Problem {
	return core.Problem{Code: string(fault.ParentDamaged), Object: d.Object, Detail: d.formatReason()}
}

// ReasonsOf gives a sentence for each damage; of many, for the first.
func ReasonsOf(damage []Damage) []string {
	const reported = 10
	var reasons []string
	for _, found := range damage[:min(reported, len(damage))] {
		reasons = append(reasons, found.formatReason())
	}
	if len(damage) > reported {
		reasons = append(reasons, fmt.Sprintf("and %d more of its segments are missing or damaged", len(damage)-reported))
	}
	return reasons
}

// Named is a segment with what it is.
type Named struct {
	Kind string
	core.Segment
}

// ChooseDue chooses what is read tonight: what plan reads anyway or everything depends on, the segments whose turn it
// is by their hash, and the next ones until it is enough.
func (c Checks) ChooseDue(segments []Named) []Named {
	least, now := cmp.Or(c.Bytes, checkBytes), time.Now
	if c.Now != nil {
		now = c.Now
	}
	const day = 24 * 60 * 60
	night := uint64(now().Unix() / day)
	// wait is in how many nights it is a segment's turn.
	wait := func(segment Named) uint64 {
		if segment.Kind == "documents" || segment.Kind == "idf" || segment.Kind == "tomb" {
			return 0
		}
		raw, err := hex.DecodeString(segment.SHA256)
		if err != nil || len(raw) < 8 {
			return 0
		}
		turn := binary.BigEndian.Uint64(raw) % checkNights
		return (turn + checkNights - night%checkNights) % checkNights
	}
	ordered := slices.Clone(segments)
	slices.SortStableFunc(ordered, func(a, b Named) int { return cmp.Compare(wait(a), wait(b)) })
	total := int64(0)
	for place, segment := range ordered {
		if wait(segment) > 0 && total >= least {
			return ordered[:place]
		}
		total += segment.Bytes
	}
	return ordered
}
