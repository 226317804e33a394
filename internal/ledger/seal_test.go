package ledger_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// flipEach changes each byte of the objects below a prefix, and calls look each time with the names that are reported.
func (b *book) flipEach(t *testing.T, prefix string, look func(where string, i int, named *names)) {
	t.Helper()
	whole := map[string][]byte{}
	for _, object := range b.store.Keys("ledger/") {
		raw, _, err := blob.Read(t.Context(), b.store, object)
		require.NoError(t, err)
		whole[object] = raw
	}
	flips := 0
	for _, object := range b.store.Keys(prefix) {
		for i := range whole[object] {
			raw := bytes.Clone(whole[object])
			raw[i] ^= 1 << (i % 8)
			must(blob.Write(t.Context(), b.store, object, raw, blob.Cond{}))
			b.reopen()
			named := &names{}
			b.OnDamage = named.add
			look(object, i, named)
			for name, raw := range whole { // what does not hold is removed
				must(blob.Write(t.Context(), b.store, name, raw, blob.Cond{}))
			}
			flips++
		}
	}
	require.NotZero(t, flips, "below %s", prefix)
}

// Whatever byte of a loose entry is damaged: it is absent, named, removed, and paid for once more.
func TestALooseEntryWithAChangedByteIsAbsent(t *testing.T) {
	for _, task := range ledger.Tasks() {
		if task == ledger.Embed {
			continue
		}
		for _, negative := range []bool{false, true} {
			b := newBook(t)
			result := ledger.Result{Value: []byte(`{"entities":[]}`), Negative: negative}
			must(b.Put(t.Context(), task, key(1), 0, result))
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, named *names) {
				entry, err := b.Get(t.Context(), task, key(1), 0)
				require.True(t, err == nil && entry == nil && len(named.all()) == 1 && len(b.store.Keys(where)) == 0,
					"byte %d of %s: %v, %v, %v", i, where, entry, err, named.all())
			})
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, _ *names) {
				entry, err := b.Put(t.Context(), task, key(1), 0, ledger.Result{Value: []byte("new")})
				require.True(t, err == nil && string(entry.Value) == "new", "byte %d of %s: %v, %v", i, where, entry, err)
			})
			b.flipEach(t, "ledger/"+task+"/loose/", func(where string, i int, _ *names) {
				packed, err := b.Pack(t.Context(), task, []core.Digest{key(1), key(2)})
				require.True(t, err == nil && packed == 0, "byte %d of %s is packed: %v", i, where, err)
			})
		}
	}
}

func TestAnEntryUnderAnotherNameIsAbsent(t *testing.T) {
	b := newBook(t)
	b.put(t, ledger.Extract, 0, 1)
	object := b.store.Keys("ledger/extract/")[0]
	raw, _, err := blob.Read(t.Context(), b.store, object)
	require.NoError(t, err)
	b.put(t, ledger.Extract, 1, 2)
	for _, other := range b.store.Keys("ledger/extract/") {
		must(blob.Write(t.Context(), b.store, other, raw, blob.Cond{}))
	}
	b.want(t, ledger.Extract, 2, func(i int) bool { return i == 0 })
}

// A pack whose entries lie nowhere else: each reads as it was written, or is absent.
func TestAPackWithAChangedByteGivesNoOtherValue(t *testing.T) {
	b := newBook(t)
	b.pay(t, ledger.Shorten, 0, 3)
	b.now = day(3)
	b.upkeep(t, ledger.Shorten, nil) // sweeps the loose ones
	require.Empty(t, b.store.Keys("ledger/shorten/loose/"))
	absent := 0
	b.flipEach(t, "ledger/shorten/packs/", func(where string, i int, named *names) {
		for n := range 3 {
			entry := must(b.Get(t.Context(), ledger.Shorten, key(n), 0))
			if entry == nil {
				absent++
				require.Len(t, named.all(), 1, "byte %d of %s", i, where)
				continue
			}
			require.Equal(t, value(n), string(entry.Value), "byte %d of %s", i, where)
		}
	})
	assert.NotZero(t, absent)
}

func TestVectorsWithAChangedByteAreAbsent(t *testing.T) {
	texts, vectors := []core.Digest{key(1), key(2)}, [][]float32{{1, 0, 0}, {0, 0.6, 0.8}}
	for _, sealed := range []bool{false, true} {
		b := newBook(t)
		require.NoError(t, b.PutVectors(t.Context(), texts, vectors))
		if sealed {
			require.NoError(t, b.SealTexts(t.Context()))
		}
		read := func() ([][]float32, error) {
			objects := must(b.FindTexts(t.Context(), texts))
			return b.ReadVectors(t.Context(), texts, objects)
		}
		b.flipEach(t, "ledger/embed/", func(where string, i int, named *names) {
			found, err := read()
			require.True(t, err == nil && found[0] == nil && found[1] == nil && len(named.all()) == 1,
				"sealed %t, byte %d of %s: %v, %v, %v", sealed, i, where, found, err, named.all())
			require.NoError(t, b.PutVectors(t.Context(), texts, vectors))
			b.reopen()
			found, err = read()
			require.True(t, err == nil && assert.ObjectsAreEqual(vectors, found), "paid again: %v, %v", found, err)
		})
		if !sealed {
			continue
		}
		b.flipEach(t, "ledger/texts/packs/", func(where string, i int, named *names) {
			found := must(read())
			for n := range found {
				require.True(t, found[n] == nil && len(named.all()) == 1 || assert.ObjectsAreEqual(vectors[n], found[n]),
					"byte %d of %s: %v, %v", i, where, found, named.all())
			}
		})
	}
}

// The server is not asked, so it is not at fault.
func TestAStoredVectorThatIsNotFiniteIsDamage(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		b := newBook(t)
		texts := []core.Digest{key(1)}
		require.NoError(t, b.PutVectors(t.Context(), texts, [][]float32{{1, float32(bad)}}))
		b.reopen()
		var named names
		b.OnDamage = named.add
		objects := must(b.FindTexts(t.Context(), texts))
		found, err := b.ReadVectors(t.Context(), texts, objects)
		assert.True(t, err == nil && found[0] == nil && len(named.all()) == 1, "%v: %v, %v, %v", bad, found, err, named.all())
	}
}
