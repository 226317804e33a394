package ledger

import (
	"bytes"
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A negative entry stands under the key of its result, so that one request tells of a miss: this mark, the attempt, a
// line feed, what it tells. No result begins like that: those of chat models are JSON, and answers of embedding models
// begin with a number that this is too large for.
const negativeMark = "\x00neg "

func encodeNegative(attempt int, value []byte) []byte {
	return append(strconv.AppendInt([]byte(negativeMark), int64(attempt), 10), append([]byte("\n"), value...)...)
}

// decodeNegative reads a stored entry; negative is false where it is a positive one.
func decodeNegative(raw []byte) (value []byte, attempt int, negative bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(negativeMark))
	if !ok {
		return raw, 0, false
	}
	digits, value, ok := bytes.Cut(rest, []byte("\n"))
	attempt, err := strconv.Atoi(string(digits))
	if !ok || err != nil {
		return raw, 0, false
	}
	return value, attempt, true
}

// formerNegKey is where releases wrote a negative entry that had a name of its own for it.
func formerNegKey(task string, key core.Digest, attempt int) string {
	return looseKey(task, key) + formerNeg + strconv.Itoa(attempt)
}

const formerNeg = ".neg-"

// negativesKey says when no entry of a task had a former name.
func negativesKey(task string) string { return "ledger/" + task + "/negatives.json" }

// former are the negative entries of a task that have former names.
type former struct {
	turn  chan struct{} // who holds its place looks
	known time.Time
	names map[string]bool // names of objects
}

func newFormer() *former { return &former{turn: make(chan struct{}, 1)} }

// formerFor is how long it is believed which former names there are: a release before that runs beside this one may
// write more.
const formerFor = 24 * time.Hour

// formerNegatives gives the former names of a task. The store is asked once a day by each process, by a listing where
// it may hold some.
func (l *Ledger) formerNegatives(ctx context.Context, task string) (map[string]bool, error) {
	l.formerMu.Lock()
	f := l.former[task]
	if f == nil {
		f = newFormer()
		l.former[task] = f
	}
	l.formerMu.Unlock()
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now := time.Now().UTC()
	if now.Sub(f.known) < formerFor && !f.known.IsZero() {
		return f.names, nil
	}
	var none struct {
		At time.Time `json:"at"` // of a listing that found no former name
	}
	_, err := blob.ReadJSON(ctx, l.store, negativesKey(task), &none)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SegmentDamage) {
		return nil, err
	}
	names := map[string]bool{}
	if err != nil || now.Sub(none.At).Abs() >= formerFor {
		for info, err := range l.store.List(ctx, loosePrefix(task), "") {
			if err != nil {
				return nil, err
			}
			if strings.Contains(path.Base(info.Key), formerNeg) {
				names[info.Key] = true
			}
		}
		if len(names) == 0 { // that spares others the listing; where it cannot be written they list too
			none.At = now
			_, _ = blob.WriteJSON(ctx, l.store, negativesKey(task), none, blob.Cond{})
		}
	}
	f.known, f.names = now, names
	return names, nil
}
