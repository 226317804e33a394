package artifact

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
)

// Whatever the order of rows is, the first of a key is found, and what is not there is not; in the order of keys
// without reading those before it.
func TestARowOfAFrameIsFoundInAnyOrder(t *testing.T) {
	for name, keys := range map[string][]string{
		"empty":         {},
		"one":           {"b"},
		"in order":      {"", "a", "ab", "b", "c"},
		"several a key": {"a", "b", "b", "b", "c", "c"},
		"in disorder":   {"c", "a", "b", "a"},
	} {
		var one unpacked
		first := map[string]int{} // the value of a row is its number
		for at, key := range keys {
			one.raw = append(binary.AppendUvarint(one.raw, uint64(len(key))), key...)
			one.raw = append(one.raw, 1, byte(at))
			if _, again := first[key]; !again {
				first[key] = at
			}
		}
		one.findRows()
		assert.Equal(t, len(one.rows) == len(keys), name != "in disorder", "%s: %d rows", name, len(one.rows))
		for _, key := range []string{"", "a", "aa", "ab", "b", "bb", "c", "d"} {
			found, read := -1, 0
			for rest := one.rowsFrom(key); found < 0; read++ {
				have, value, next, ok := rowfile.NextRow(rest)
				if !ok {
					break
				}
				if string(have) == key {
					found = int(value[0])
				}
				rest = next
			}
			want, held := first[key]
			assert.True(t, held && found == want || !held && found < 0, "%s: %q is row %d, want %d", name, key, found, want)
			assert.True(t, !held || one.rows == nil || read == 1, "%s: rows before %q are read", name, key)
		}
	}
}
