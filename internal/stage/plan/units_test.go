package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/document"
)

// cutAll gives the units of so many equal documents.
func cutAll(listed int64, count int, doc planned) (units []Unit) {
	c := newCutter(listed)
	for frame := range count {
		if c.isFull() {
			units = append(units, c.next())
		}
		c.addDocument(doc, frame)
	}
	return append(units, c.next())
}

func TestUnitsAreOfTheTextThatIsExpected(t *testing.T) {
	const megabyte = 1 << 20
	file := func(kind document.Kind, size int64) planned {
		return planned{row: rows.Plan{Kind: string(kind), Size: size}}
	}
	known := file(document.PDF, 4*megabyte)
	known.known, known.old = true, rows.Document{Size: 4 * megabyte, Runes: 2 * megabyte}
	packed := file(document.Text, megabyte)
	packed.row.Gzip = true
	for name, c := range map[string]struct {
		listed int64
		count  int
		doc    planned
		units  int
	}{
		"text counts as it is":                         {160 * megabyte, 160, file(document.Text, megabyte), 10},
		"packed text counts unpacked":                  {48 * megabyte, 48, packed, 8},
		"small files count by number":                  {10_001, 10_001, file(document.Text, 1), 3},
		"a small corpus of PDF has units for a fleet":  {1 << 30, 1024, file(document.PDF, megabyte), 64},
		"a large one has few":                          {512 << 30, 524_288, file(document.PDF, megabyte), 1964},
		"the generation before knows how much it held": {400 << 30, 4096, known, 512},
		"one file above all bounds is a unit":          {5 << 30, 1, file(document.Text, 5<<30), 1},
		"nothing is known of its size":                 {0, 3, file(document.Text, 0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			units := cutAll(c.listed, c.count, c.doc)
			assert.Len(t, units, c.units)
			next, documents := 0, int64(0)
			for _, unit := range units {
				require.True(t, unit.From == next && unit.To > unit.From, "%+v does not follow frame %d", unit, next)
				next, documents = unit.To, documents+unit.Documents
			}
			assert.True(t, next == c.count && documents == int64(c.count),
				"%d frames and %d documents of %d", next, documents, c.count)
		})
	}
}
