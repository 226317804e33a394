package upkeep

import (
	"context"
	"encoding/binary"
	"iter"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// decisions are what was decided of documents that are not left as they are, with the moved ones apart from those that
// were added and removed. They are sorted on disk.
type decisions struct {
	why string // the document that is asked about; empty: none

	matched extsort.Sorter // what was added and removed, see release.PairMoves
	reasons extsort.Sorter // reasons by key
	shares  []core.Share
	number  map[string]int // of shares, by reason
	asked   *core.Why
	next    func() ([2][]byte, error, bool)
	stop    func()
	row     [2][]byte
	ok      bool
}

func newDecisions(why string) *decisions {
	return &decisions{why: why, number: map[string]int{}, stop: func() {}}
}

func (d *decisions) close() {
	d.stop()
	d.matched.Close()
	d.reasons.Close()
}

// findShare returns the share of a reason, which is entered where it is new.
func (d *decisions) findShare(reason string) int {
	number, ok := d.number[reason]
	if !ok {
		number = len(d.shares)
		d.number[reason] = number
		d.shares = append(d.shares, core.Share{Reason: reason})
	}
	return number
}

func orEmpty(digest core.Digest) string {
	if digest.IsZero() {
		return ""
	}
	return digest.String()
}

// addDecision receives the decisions of plan (plan.In.OnDecision).
func (d *decisions) addDecision(seen plan.Decision) {
	if d.why != "" && seen.Key == d.why {
		d.asked = &core.Why{
			Document: seen.Key, Reason: seen.Reason, Detail: seen.Detail, Version: orEmpty(seen.Version), Was: orEmpty(seen.Was),
			Chunks: int64(seen.Chunks),
		}
	}
	switch {
	case seen.Reason == plan.DecidedRemoved:
		d.matched.Add(append(seen.Was[:], release.WentMark), encodeDecision(seen))
	case seen.Reason == plan.DecidedAdded:
		d.matched.Add(append(seen.Version[:], release.CameMark), encodeDecision(seen))
	case seen.Made:
		d.shares[d.findShare(seen.Reason)].Documents++
		d.addReason(seen.Key, seen.Reason, seen.Version)
	}
}

// encodeDecision returns how many chunks the parent has of a document, and its key.
func encodeDecision(seen plan.Decision) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(seen.Chunks)), seen.Key...)
}

// addReason keeps why a document is made, and its version.
func (d *decisions) addReason(key, reason string, version core.Digest) {
	d.reasons.Add([]byte(key), append(version[:], reason...))
}

// matchMoves says what moved: of each version as many as left under one key and came under another, the first ones.
// What moved is listed under the key that it came under.
func (d *decisions) matchMoves() error {
	return release.PairMoves(&d.matched, func(reason string, version core.Digest, decided, _ []byte) {
		key := string(decided[8:])
		share := &d.shares[d.findShare(reason)]
		if share.Documents++; reason == plan.DecidedRemoved {
			share.Chunks += int64(binary.BigEndian.Uint64(decided))
		}
		if d.asked != nil && d.asked.Document == key {
			d.asked.Reason = reason
		}
		d.addReason(key, reason, version)
	})
}

// walkReasons walks the reasons in the order of keys.
func (d *decisions) walkReasons() error {
	d.next, d.stop = iter.Pull2(d.reasons.StreamSorted())
	return d.nextReason()
}

func (d *decisions) nextReason() (err error) {
	d.row, err, d.ok = d.next()
	return err
}

// shareOf gives the share of a document; documents come in the order of keys.
func (d *decisions) shareOf(key string) (int, error) {
	for d.ok && string(d.row[0]) < key {
		if err := d.nextReason(); err != nil {
			return 0, err
		}
	}
	if !d.ok || string(d.row[0]) != key {
		return 0, fault.Internal.At("tell why document is made", fault.QuoteName(key)).
			Because("nothing was decided of it").Advise("report this")
	}
	return d.findShare(string(d.row[1][len(core.Digest{}):])), nil
}

// listPlanned gives what was decided, instead of walking it.
func (d *decisions) listPlanned() ([]core.Planned, error) {
	out := []core.Planned{}
	for pair, err := range d.reasons.StreamSorted() {
		if err != nil {
			return nil, err
		}
		version := core.Digest(pair[1][:len(core.Digest{})])
		reason := string(pair[1][len(version):])
		one := core.Planned{Document: string(pair[0]), Reason: reason}
		if reason != plan.DecidedRemoved {
			one.Version = orEmpty(version)
		}
		out = append(out, one)
	}
	return out, nil
}

// compareUnit enters the chunks of a unit: which the parent has, and for which reason each is made.
func (e *estimating) compareUnit(
	ctx context.Context, unit int, chunked chunk.Result, known func(core.ID) bool,
) (shares []int, err error) {
	last, share, relabelled := "", 0, false
	for ref, err := range join.StreamRefs(ctx, e.Artifacts, e.ChunksKey(unit, chunked), 0, int(chunked.Counts.Chunks)) {
		if err != nil {
			return nil, err
		}
		if ref.Document != last {
			if share, err = e.decisions.shareOf(ref.Document); err != nil {
				return nil, err
			}
			last, relabelled = ref.Document, e.hasOtherLabels(ref)
			if e.isAsked(last) {
				e.decisions.asked.Chunks = 0 // what the parent had
			}
		}
		shares = append(shares, share)
		counted := &e.decisions.shares[share]
		counted.Chunks++
		fresh := !known(ref.ID)
		if fresh || relabelled { // what it mentions is of other classes now
			e.fresh.Chunks++
			e.fresh.Tokens += int64(ref.Tokens)
		}
		if fresh {
			counted.Fresh++
		}
		if e.isAsked(last) {
			e.decisions.asked.Chunks++
			e.asked = append(e.asked, len(shares)-1)
			if fresh {
				e.decisions.asked.Fresh++
			}
		}
	}
	return shares, nil
}

// hasOtherLabels reports whether the document of a chunk has other labels than in the parent, or may have, as it has
// another key there.
func (e *estimating) hasOtherLabels(ref join.Ref) bool {
	if e.table == nil {
		return false
	}
	at, counts := e.table.FindDocument(ref.Document)
	if !counts {
		return e.Settings.ReadAs().Labels.IsOn()
	}
	return e.table.Splits[at.Segment].LabelsOf(at.Row) != ref.Labels
}

// isAsked reports whether a document is the one that is asked about.
func (e *estimating) isAsked(document string) bool {
	return e.decisions.asked != nil && e.decisions.asked.Document == document
}
