package files

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

// onePart closes a store whose collection lies in one part, and gives the part's path and content.
func onePart(t *testing.T, store *Store, dir string) (string, []byte) {
	require.NoError(t, store.Close())
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 1, "%v", parts)
	return parts[0], musttest.Get(os.ReadFile(parts[0]))(t)
}

// exactAt returns where the vector of a key lies in a part's file.
func exactAt(t *testing.T, path, key string) int {
	p := musttest.Get(openPart(path))(t)
	defer func() { _ = p.close() }()
	row := p.findKey(key)
	require.True(t, row >= 0, "no row %v", key)
	return len(p.data) - 4 - 4*p.dim*(p.n-row)
}

// twice writes rows of a closed collection of one part into a second part, as a merge or a repair does that is cut off.
func twice(t *testing.T, dir string, rows []vectors.Row) {
	path := filepath.Join(dir, "c", "00000001"+partEnd)
	require.NoError(t, writePart(path, vectorstest.Dim, sourceOf(sortRows(rows), vectorstest.Dim)))
}

func write(t *testing.T, path string, raw []byte) {
	require.NoError(t, os.WriteFile(path, raw, 0o600))
}

func loaded(t *testing.T, dir string) *Store {
	store := open(t, dir)
	require.NoError(t, store.Load(t.Context(), "c"))
	return store
}

// finds demands that a search for a row gives the row first.
func finds(t *testing.T, store *Store, row vectors.Row) {
	hits, err := store.Search(t.Context(), "c", row.Vector, 3)
	assert.True(t, err == nil && len(hits) == 3 && hits[0].Key == row.Key, "found %v, %v", hits, err)
}

func identity(t *testing.T, store *Store) string {
	return musttest.Get(store.Identity(t.Context(), "c"))(t)
}

// Whichever byte of an exact row is damaged, no caller gets the row, and filling missing rows mends it.
func TestADamagedRowIsNeverGivenAndIsWrittenAgain(t *testing.T) {
	for situation, bit := range map[string]byte{"a sign": 31, "an exponent": 25, "the last bit of a number": 0} {
		t.Run(situation, func(t *testing.T) {
			dir, store, rows := filledFolder(t, 200)
			before := identity(t, store)
			path, raw := onePart(t, store, dir)
			at := exactAt(t, path, rows[7].Key) + 4*5
			raw[at+int(bit/8)] ^= 1 << (bit % 8)
			write(t, path, raw)
			store = loaded(t, dir)
			musttest.Refuse(store.Search(t.Context(), "c", rows[7].Vector, 3))(t, fault.SegmentDamage)
			musttest.Refuse(store.Fetch(t.Context(), "c", []string{rows[7].Key}))(t, fault.SegmentDamage)
			assert.True(t, identity(t, store) != before, "no build will look for the row")
			has, err := store.Has(t.Context(), "c", []string{rows[6].Key, rows[7].Key})
			assert.True(t, err == nil && has[0] && !has[1], "has %v, %v", has, err)
			for range 2 {
				require.NoError(t, store.Upsert(t.Context(), "c", rows))
				finds(t, store, rows[7])
				counts(t, store, 200)
				require.NoError(t, store.Close())
				store = loaded(t, dir)
			}
			assert.Len(t, matching(t, dir, "*"+partEnd), 2)
		})
	}
}

// A repair that was cut off between its two files leaves the damaged row beside the new one.
func TestADamagedRowBesideAWholeOneIsPassedOver(t *testing.T) {
	dir, store, rows := filledFolder(t, 50)
	path, raw := onePart(t, store, dir)
	twice(t, dir, rows)
	raw[exactAt(t, path, rows[3].Key)] ^= 1
	write(t, path, raw)
	store = loaded(t, dir)
	finds(t, store, rows[3])
	store.open["c"].mu.Lock()
	err := store.open["c"].mergeParts(store.open["c"].parts)
	store.open["c"].mu.Unlock()
	require.NoError(t, err)
	finds(t, store, rows[3])
}

// A merge must not give a damaged row a checksum that fits it.
func TestAMergeKeepsADamagedRowDamaged(t *testing.T) {
	dir, store, rows := filledFolder(t, 60)
	path, raw := onePart(t, store, dir)
	raw[exactAt(t, path, rows[9].Key)+3] ^= 0x80 // a sign
	write(t, path, raw)
	store = loaded(t, dir)
	remove(t, store, rows[20:]) // so many that the part is written again
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 1 && parts[0] != path, "%v", parts)
	musttest.Refuse(store.Search(t.Context(), "c", rows[9].Vector, 3))(t, fault.SegmentDamage)
	has, err := store.Has(t.Context(), "c", []string{rows[9].Key, rows[12].Key})
	assert.True(t, err == nil && !has[0] && has[1], "has %v, %v", has, err)
}

// A part that was copied over another is whole, and has not the rows of the place where it lies.
func TestAPartOfAnotherPlaceIsRefused(t *testing.T) {
	for _, to := range []string{"c/00000001.part", "d/00000000.part"} {
		dir, store, rows := filledFolder(t, 20)
		require.NoError(t, store.Create(t.Context(), "d", vectorstest.Dim))
		require.NoError(t, store.Upsert(t.Context(), "d", rows))
		_, raw := onePart(t, store, dir)
		write(t, filepath.Join(dir, to), raw)
		musttest.Code(t, musttest.Err(open(t, dir).Count(t.Context(), to[:1])), fault.NotFound, to)
	}
}

// A machine that lost power may leave the file empty, cut, or full of zeros.
func TestACollectionWithADamagedMetaIsSetAside(t *testing.T) {
	for name, torn := range map[string]string{
		"empty": "", "cut": `{"di`, "zeroed": "\x00\x00\x00", "no dimension": "{}", "below zero": `{"dim":-4}`,
	} {
		dir, store, rows := filledFolder(t, 30)
		require.NoError(t, store.Close())
		write(t, filepath.Join(dir, "c", metaName), []byte(torn))
		store = open(t, dir)
		_, err := store.Count(t.Context(), "c")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", name, err)
		assert.DirExists(t, filepath.Join(dir, "c"+damaged), name)
		assert.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim), name)
		assert.NoError(t, store.Upsert(t.Context(), "c", rows), name)
		counts(t, store, 30)
	}
}

// lose removes the first of two parts of a collection that is closed.
func lose(t *testing.T, dir string) (rows []vectors.Row, gone string) {
	store, rows := filled(t, dir, 40)
	require.NoError(t, store.Upsert(t.Context(), "c", vectorstest.Rows(60, vectorstest.Dim, 9)[40:]))
	require.NoError(t, store.Close())
	parts := matching(t, dir, "*"+partEnd)
	require.True(t, len(parts) == 2, "%v", parts)
	return rows, parts[0]
}

// A part that is gone makes no other answers: the collection counts as lost, and is filled again.
// Promises: 85.
func TestACollectionThatLacksAPartIsSetAside(t *testing.T) {
	for name, damage := range map[string]func(dir, part string) error{
		"first": func(_, part string) error { return os.Remove(part) },
		"last":  func(dir, _ string) error { return os.Remove(filepath.Join(dir, "c", "00000001"+partEnd)) },
	} {
		dir := t.TempDir()
		rows, part := lose(t, dir)
		require.NoError(t, damage(dir, part))
		store := open(t, dir)
		musttest.Code(t, store.Load(t.Context(), "c"), fault.NotFound, "%s: load gave", name)
		musttest.Code(t, musttest.Err(store.Identity(t.Context(), "c")), fault.NotFound, "%s: no build sees it", name)
		fill(t, store, rows)
		counts(t, store, 40)
	}
}

// What is gone while it is mapped is written again when a build asks for the identity. With the folder its identity
// goes, too, so that a build looks for every row; it finds them.
func TestWhatIsGoneWhileItIsMappedIsWrittenAgain(t *testing.T) {
	for _, folder := range []bool{false, true} {
		dir := t.TempDir()
		rows, gone := lose(t, dir)
		store := open(t, dir)
		remove(t, store, rows[:1])
		before := identity(t, store)
		if folder {
			gone = filepath.Join(dir, "c")
		}
		require.NoError(t, os.RemoveAll(gone))
		assert.Equal(t, folder, identity(t, store) != before, "%s has another identity", gone)
		require.NoError(t, store.Close())
		store = loaded(t, dir)
		counts(t, store, 59)
		finds(t, store, rows[7])
	}
}

// One bit of the dimension: the collection is filled again.
// Promises: 85.
func TestADescriptionWithAnotherDimensionIsDamage(t *testing.T) {
	for _, change := range []meta{
		{Dim: vectorstest.Dim ^ 1, Parts: []int{0, 1}}, {Dim: vectorstest.Dim, Parts: []int{0}},
		{Dim: vectorstest.Dim, Parts: []int{0, 1, 2}},
	} {
		dir := t.TempDir()
		_, _ = lose(t, dir)
		store := open(t, dir)
		before := identity(t, store)
		require.NoError(t, store.Close())
		whole := meta{Dim: vectorstest.Dim, Parts: []int{0, 1}}
		change.Sum = whole.computeSum()
		write(t, filepath.Join(dir, "c", metaName), musttest.Get(json.Marshal(change))(t))
		store = open(t, dir)
		assert.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim), "%+v", change)
		counts(t, store, 0)
		assert.True(t, identity(t, store) != before, "%+v: no build looks for what may be missing", change)
	}
	dir := t.TempDir() // a description that is whole, and of other rows
	_, _ = lose(t, dir)
	require.NoError(t, writeMeta(filepath.Join(dir, "c"), meta{Dim: vectorstest.Dim + 1, Parts: []int{0, 1}}))
	assert.NoError(t, open(t, dir).Create(t.Context(), "c", vectorstest.Dim))
}

// A file that is cut, or whose lengths are damaged, while it is mapped must not end the process or pass for a fault of
// it: the collection counts as missing, and may be filled again.
// Promises: 85.
func TestAPartThatIsDamagedWhileItIsOpenIsDamage(t *testing.T) {
	for name, use := range map[string]func(store *Store, row vectors.Row) error{
		"search": func(store *Store, row vectors.Row) error {
			return musttest.Err(store.Search(t.Context(), "c", row.Vector, 5))
		},
		"fetch": func(store *Store, row vectors.Row) error {
			return musttest.Err(store.Fetch(t.Context(), "c", []string{row.Key}))
		},
		"has": func(store *Store, row vectors.Row) error {
			return musttest.Err(store.Has(t.Context(), "c", []string{row.Key}))
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
				dir, store, rows := filledFolder(t, 3000)
				require.NoError(t, store.Load(t.Context(), "c"))
				spoilOpen(t, dir, spoil)
				musttest.Fail(t, use(store, rows[0]), fault.NotFound)
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
			dir, store, rows := filledFolder(t, 200)
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
				fill(t, store, rows[3:])
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
	dir, store, rows := filledFolder(t, 200)
	path := matching(t, dir, "*"+partEnd)[0]
	raw := musttest.Get(os.ReadFile(path))(t)
	raw[exactAt(t, path, rows[7].Key)] ^= 1
	write(t, path+".other", raw)
	require.NoError(t, os.Rename(path+".other", path))
	require.NoError(t, store.Reopen(t.Context(), "c"))
	has, err := store.Has(t.Context(), "c", []string{rows[6].Key, rows[7].Key})
	assert.True(t, err == nil && has[0] && !has[1], "has %v, %v", has, err)
}

// spoilOpen changes the one part of a collection in place, under who has it mapped.
func spoilOpen(t *testing.T, dir string, spoil func([]byte) []byte) {
	path := matching(t, dir, "*"+partEnd)[0]
	write(t, path, spoil(musttest.Get(os.ReadFile(path))(t)))
}

// A collection whose content cannot be opened counts as missing: filling missing ones fills it.
func TestADamagedCollectionIsSetAsideAndFilledAgain(t *testing.T) {
	flip := func(at int) func([]byte) []byte { // below zero it counts from the end
		return func(raw []byte) []byte { raw[(at+len(raw))%len(raw)] ^= 0x40; return raw }
	}
	const n = 30
	exact := 4*n*vectorstest.Dim + 4 // exact rows and the checksum, at the end
	for situation, spoil := range map[string]func([]byte) []byte{
		"magic": flip(0), "dimension": flip(8), "number of rows": flip(12), "ends of keys": flip(20),
		"keys": flip(16 + 4*n + 7), "quantised rows": flip(-exact - 100), "checksum": flip(-1),
		"cut by a byte":         func(raw []byte) []byte { return raw[:len(raw)-1] },
		"cut in its header":     func(raw []byte) []byte { return raw[:10] },
		"nothing but a header":  func(raw []byte) []byte { return raw[:20] },
		"empty":                 func([]byte) []byte { return nil },
		"its checksum twice":    func(raw []byte) []byte { return append(raw, raw[len(raw)-4:]...) },
		"a file of zeros alone": func(raw []byte) []byte { return make([]byte, len(raw)) },
	} {
		dir := t.TempDir()
		for range 2 { // the second time what was set aside is replaced
			store, rows := filled(t, dir, n)
			before := identity(t, store)
			path, raw := onePart(t, store, dir)
			write(t, path, spoil(raw))
			store = open(t, dir)
			err := musttest.Err(store.Count(t.Context(), "c"))
			assert.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), path), "%s: %v", situation, err)
			assert.Empty(t, musttest.Get(store.List(t.Context(), ""))(t), "%s: listed", situation)
			assert.FileExists(t, filepath.Join(dir, "c.damaged", filepath.Base(path)), "%s", situation)
			require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
			assert.True(t, identity(t, store) != before, "%s: it passes for the one that was proven", situation)
			require.NoError(t, store.Upsert(t.Context(), "c", rows))
			counts(t, store, n)
			require.NoError(t, store.Close())
		}
		require.NoError(t, open(t, dir).Drop(t.Context(), "c"))
		assert.Empty(t, musttest.Get(os.ReadDir(dir))(t), "%s: a drop left", situation)
	}
}

// A part that cannot be read now may be whole: nothing is set aside for an error of the disk.
func TestAnUnreadableCollectionIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	require.NoError(t, store.Create(t.Context(), "c", vectorstest.Dim))
	require.NoError(t, store.Close())
	if err := os.Symlink("00000001.part", filepath.Join(dir, "c", "00000001.part")); err != nil { // ELOOP when opened
		t.Fatal(err)
	}
	store = open(t, dir)
	musttest.Refuse(store.Count(t.Context(), "c"))(t, fault.StoreDown)
	assert.Len(t, musttest.Get(store.List(t.Context(), ""))(t), 1)
}
