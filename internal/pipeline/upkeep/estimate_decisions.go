package upkeep

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// decisions are what was decided of documents that are not left as they are, with the moved ones apart from those that
// were added and removed. They are sorted on disk.
type decisions struct {
	why string // the document that is asked about; empty: none

	arrivals extsort.Sorter // '+' or '-' by version
	matched  extsort.Sorter // keys by version and sign: added and removed
	reasons  extsort.Sorter // reasons by key
	shares   []core.Share
	number   map[string]int // of shares, by reason
	asked    *core.Why
	next     func() ([2][]byte, error, bool)
	stop     func()
	row      [2][]byte
	ok       bool
}

func newDecisions(why string) *decisions {
	return &decisions{why: why, number: map[string]int{}, stop: func() {}}
}

func (d *decisions) close() {
	d.stop()
	d.arrivals.Close()
	d.matched.Close()
	d.reasons.Close()
}

// share of a reason, which is entered where it is new.
func (d *decisions) share(reason string) int {
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

// decided is plan.In.OnDecision.
func (d *decisions) decided(told plan.Decision) {
	if d.why != "" && told.Key == d.why {
		d.asked = &core.Why{
			Document: told.Key, Reason: told.Reason, Detail: told.Detail, Version: orEmpty(told.Version), Was: orEmpty(told.Was),
			Chunks: int64(told.Chunks),
		}
	}
	switch {
	case told.Reason == plan.DecidedRemoved:
		d.arrivals.Add(told.Was[:], []byte{'-'})
		d.matched.Add(append(told.Was[:], '-'), keyed(told))
	case told.Reason == plan.DecidedAdded:
		d.arrivals.Add(told.Version[:], []byte{'+'})
		d.matched.Add(append(told.Version[:], '+'), keyed(told))
	case told.Made:
		d.shares[d.share(told.Reason)].Documents++
		d.enter(told.Key, told.Reason, told.Version)
	}
}

// keyed is how many chunks the parent has of a document, and its key.
func keyed(told plan.Decision) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(told.Chunks)), told.Key...)
}

// enter keeps why a document is made, and its version.
func (d *decisions) enter(key, reason string, version core.Digest) {
	d.reasons.Add([]byte(key), append(version[:], reason...))
}

// match says what moved: of each version as many as left under one key and came under another, the first ones.
func (d *decisions) match() error {
	next, stop := iter.Pull2(d.arrivals.Sorted())
	defer stop()
	ahead, err, ok := next()
	var version []byte
	var moved, cameNow, wentNow int64
	for pair, failed := range d.matched.Sorted() {
		if failed != nil {
			return failed
		}
		at := len(pair[0]) - 1
		if !bytes.Equal(pair[0][:at], version) {
			version = bytes.Clone(pair[0][:at])
			cameNow, wentNow = 0, 0
			var came, went int64
			for ; ok && err == nil && bytes.Equal(ahead[0], version); ahead, err, ok = next() {
				if ahead[1][0] == '+' {
					came++
				} else {
					went++
				}
			}
			if err != nil {
				return err
			}
			moved = min(came, went)
		}
		chunks, key := int64(binary.BigEndian.Uint64(pair[1])), string(pair[1][8:])
		reason := plan.DecidedMoved
		if pair[0][at] == '+' {
			if cameNow++; cameNow > moved {
				reason = plan.DecidedAdded
			}
			d.shares[d.share(reason)].Documents++
		} else {
			if wentNow++; wentNow <= moved {
				continue // it is listed under the key that it came under
			}
			reason = plan.DecidedRemoved
			share := d.share(reason)
			d.shares[share].Documents++
			d.shares[share].Chunks += chunks
		}
		if d.asked != nil && d.asked.Document == key {
			d.asked.Reason = reason
		}
		d.enter(key, reason, core.Digest(version))
	}
	return nil
}

// begin walks the reasons in the order of keys.
func (d *decisions) begin() error {
	d.next, d.stop = iter.Pull2(d.reasons.Sorted())
	return d.advance()
}

func (d *decisions) advance() (err error) {
	d.row, err, d.ok = d.next()
	return err
}

// of gives the share of a document; documents come in the order of keys.
func (d *decisions) of(key string) (int, error) {
	for d.ok && string(d.row[0]) < key {
		if err := d.advance(); err != nil {
			return 0, err
		}
	}
	if !d.ok || string(d.row[0]) != key {
		return 0, fault.Internal.At("tell why document is made", fault.Quoted(key)).
			Because("nothing was decided of it").Advise("report this")
	}
	return d.share(string(d.row[1][len(core.Digest{}):])), nil
}

// list gives what was decided, instead of walking it.
func (d *decisions) list() ([]core.Planned, error) {
	out := []core.Planned{}
	for pair, err := range d.reasons.Sorted() {
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

// compare enters the chunks of a unit: which the parent has, and for which reason each is made.
func (e *estimating) compare(
	ctx context.Context, unit int, chunked chunk.Result, known func(core.ID) bool,
) (shares []int, err error) {
	last, share := "", 0
	for ref, err := range join.Refs(ctx, e.Artifacts, e.ChunksKey(unit, chunked), 0, int(chunked.Counts.Chunks)) {
		if err != nil {
			return nil, err
		}
		if ref.Document != last {
			if share, err = e.decisions.of(ref.Document); err != nil {
				return nil, err
			}
			last = ref.Document
			if e.asks(last) {
				e.decisions.asked.Chunks = 0 // what the parent had
			}
		}
		shares = append(shares, share)
		counted := &e.decisions.shares[share]
		counted.Chunks++
		fresh := !known(ref.ID)
		if fresh {
			e.fresh.Chunks++
			e.fresh.Tokens += int64(ref.Tokens)
			counted.Fresh++
		}
		if e.asks(last) {
			e.decisions.asked.Chunks++
			e.asked = append(e.asked, len(shares)-1)
			if fresh {
				e.decisions.asked.Fresh++
			}
		}
	}
	return shares, nil
}

// asks reports whether a document is the one that is asked about.
func (e *estimating) asks(document string) bool {
	return e.decisions.asked != nil && e.decisions.asked.Document == document
}
