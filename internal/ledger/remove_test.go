package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
)

var errPaid = errors.New("it would be paid for again")

// What is removed lies nowhere any more, in no pack, no former copy of one and not loose; everything else is found,
// also by a process that listed the packs before, and not paid for again.
func TestWhatIsRemovedIsGoneAndNothingElseIsPaidForAgain(t *testing.T) {
	b := newBook(t)
	for first := 0; first < 120; first += 10 { // more packs than a look-up should read
		b.pay(t, ledger.Extract, first, first+10)
	}
	b.put(t, ledger.Extract, 120, 125)
	must(b.Merge(t.Context(), ledger.Extract, day(0)))
	other := ledger.New(b.store, newClaims())
	has := func(l *ledger.Ledger, i int) bool {
		entry, paid, err := l.Do(t.Context(), ledger.Extract, key(i), 0, func(context.Context) (ledger.Result, error) {
			return ledger.Result{}, errPaid
		})
		require.True(t, (err == nil || errors.Is(err, errPaid)) && !paid, "%v", err)
		return err == nil && bytes.Equal(entry.Value, []byte(value(i)))
	}
	gone := map[core.Digest]bool{key(3): true, key(57): true, key(122): true, key(999): true}
	require.True(t, has(other, 3) && has(b.Ledger, 57), "nothing is there")
	removed, err := b.Remove(t.Context(), ledger.Extract, gone, day(1))
	require.True(t, err == nil && removed != 0, "%v %v", removed, err)
	for name, l := range map[string]*ledger.Ledger{"own": b.Ledger, "other": other, "new": ledger.New(b.store, newClaims())} {
		for i := range 125 {
			if has(l, i) == gone[key(i)] && (name != "other" || !gone[key(i)]) { // the other may remember what it read
				t.Errorf("%s process, entry %d: removed %v", name, i, gone[key(i)])
			}
		}
	}
	for info, err := range b.store.List(t.Context(), "ledger/", "") {
		require.NoError(t, err)
		raw, _, err := blob.Read(t.Context(), b.store, info.Key)
		require.NoError(t, err)
		held := bytes.Contains(raw, []byte(key(57).String()))
		for row, err := range artifact.ScanAll(t.Context(), b.store, info.Key) {
			if err != nil {
				break // no row file
			}
			held = held || gone[parsed(string(row.Key))]
		}
		assert.False(t, held, "%s still has it", info.Key)
	}
	assert.Equal(t, int64(0), must(b.Remove(t.Context(), ledger.Extract, gone, day(1))), "once more")
}

func parsed(name string) (out core.Digest) {
	_ = out.UnmarshalText([]byte(name))
	return out
}

// A text leaves the answer that holds it, and the others of that answer keep their vectors.
func TestATextLeavesTheAnswerThatHoldsItAndTheOthersStay(t *testing.T) {
	b := newBook(t)
	seller := &shop{sold: map[core.Digest]int{}}
	all := texts(0, 250)
	require.NoError(t, seller.buy(t.Context(), b.Ledger, all))
	gone := map[core.Digest]bool{all[5]: true, all[120]: true}
	for _, text := range all[200:] {
		gone[text] = true
	}
	removed, err := b.Remove(t.Context(), ledger.Embed, gone, day(1))
	require.True(t, err == nil && removed == 52, "%v %v", removed, err)
	stays := func(i int) bool { return !gone[all[i]] }
	has(t, b.Ledger, all, stays)
	has(t, ledger.New(b.store, newClaims()), all, stays)
	for info, err := range b.store.List(t.Context(), "ledger/", "") {
		require.NoError(t, err)
		raw, _, err := blob.Read(t.Context(), b.store, info.Key)
		assert.True(t, err == nil && !bytes.Contains(raw, all[5][:]), "%s still has it, %v", info.Key, err)
	}
	assert.Equal(t, int64(0), must(b.Remove(t.Context(), ledger.Embed, gone, day(1))), "once more")
}
