package files

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// A file that is cut, or whose lengths are damaged, while it is mapped must not end the process or pass for a fault of
// it: the collection counts as missing, and may be filled again.
// Promises: 85.
func TestAPartThatIsDamagedWhileItIsOpenIsDamage(t *testing.T) {
	for name, use := range map[string]func(store *Store, row vectors.Row) error{
		"search": func(store *Store, row vectors.Row) error {
			_, err := store.Search(t.Context(), "c", row.Vector, 5)
			return err
		},
		"fetch": func(store *Store, row vectors.Row) error {
			_, err := store.Fetch(t.Context(), "c", []string{row.Key})
			return err
		},
		"has": func(store *Store, row vectors.Row) error {
			_, err := store.Has(t.Context(), "c", []string{row.Key})
			return err
		},
		"upsert": func(store *Store, row vectors.Row) error { return store.Upsert(t.Context(), "c", []vectors.Row{row}) },
		"delete": func(store *Store, row vectors.Row) error { return store.Delete(t.Context(), "c", []string{row.Key}) },
	} {
		for situation, spoil := range map[string]func([]byte) []byte{
			"cut": func([]byte) []byte { return nil },
			"lengths": func(raw []byte) []byte {
				copy(raw[16:16+4*3000], bytes.Repeat([]byte{0xff, 0xfe, 0xff, 0xff}, 3000))
				return raw
			},
		} {
			t.Run(name+" "+situation, func(t *testing.T) {
				dir := t.TempDir()
				store, rows := filled(t, dir, 3000)
				require.NoError(t, store.Load(t.Context(), "c"))
				spoilOpen(t, dir, spoil)
				err := use(store, rows[0])
				require.True(t, fault.Is(err, fault.NotFound), "got %v", err)
				require.NoError(t, store.Create(t.Context(), "c", len(rows[0].Vector)))
				require.NoError(t, store.Load(t.Context(), "c"))
				assert.NoError(t, use(store, rows[0]))
			})
		}
	}
}

// What was checked when a part was opened may have been damaged since: who reopens it sees it as the next process does.
// Promises: 85.
func TestReopenSeesThePartsAsTheNextProcess(t *testing.T) {
	for situation, one := range map[string]struct {
		spoil   func([]byte) []byte
		missing bool // the collection
	}{
		"whole": {spoil: func(raw []byte) []byte { return raw }},
		"five codes": {missing: true, spoil: func(raw []byte) []byte {
			for i := range 5 {
				raw[len(raw)/6+i*97] ^= 0xff
			}
			return raw
		}},
		"magic": {missing: true, spoil: func(raw []byte) []byte { raw[0] ^= 1; return raw }},
	} {
		t.Run(situation, func(t *testing.T) {
			dir := t.TempDir()
			store, rows := filled(t, dir, 200)
			remove(t, store, rows[:3])
			require.NoError(t, store.Load(t.Context(), "c"))
			before := identity(t, store)
			spoilOpen(t, dir, one.spoil)
			has, err := store.Has(t.Context(), "c", []string{rows[7].Key})
			require.True(t, err == nil && has[0], "what was opened is damaged: %v, %v", has, err)

			err = store.Reopen(t.Context(), "c")
			assert.True(t, one.missing && fault.Is(err, fault.NotFound) || !one.missing && err == nil, "%v", err)
			_, err = store.Has(t.Context(), "c", []string{rows[7].Key})
			assert.True(t, one.missing == fault.Is(err, fault.NotFound), "%v", err)
			if one.missing {
				require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
				require.NoError(t, store.Upsert(t.Context(), "c", rows[3:]))
				require.NoError(t, store.Load(t.Context(), "c"))
			}
			assert.True(t, one.missing == (identity(t, store) != before), "the next build does not see it")
			for range 2 {
				finds(t, store, rows[7])
				counts(t, store, 197)
				require.NoError(t, store.Close())
				store = loaded(t, dir)
			}
		})
	}
}

// A part that another file was renamed over is read from that file.
func TestReopenReadsAFileThatReplacedAnOpenOne(t *testing.T) {
	dir := t.TempDir()
	store, rows := filled(t, dir, 200)
	path := matching(t, dir, "*"+partEnd)[0]
	raw := must(os.ReadFile(path))
	raw[exactAt(t, path, rows[7].Key)] ^= 1
	write(t, path+".other", raw)
	require.NoError(t, os.Rename(path+".other", path))
	require.NoError(t, store.Reopen(t.Context(), "c"))
	has, err := store.Has(t.Context(), "c", []string{rows[6].Key, rows[7].Key})
	assert.True(t, err == nil && has[0] && !has[1], "has %v, %v", has, err)
}

// spoilOpen changes the one part of a collection in place, under who has it mapped.
func spoilOpen(t *testing.T, dir string, spoil func([]byte) []byte) {
	t.Helper()
	path := matching(t, dir, "*"+partEnd)[0]
	raw := must(os.ReadFile(path))
	write(t, path, spoil(raw))
}
