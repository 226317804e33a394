package document

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
)

// mergedRows repeat the values of merged cells of a table.
type mergedRows struct{ above, row []string }

// Of a merged cell at most so many columns, and values of so many bytes, are repeated.
const (
	maxRepeats  = 100
	maxRepeated = 1000
)

// add enters a cell that spans columns; below reports that it goes on from the one above it.
func (g *mergedRows) add(text string, span int, below bool) {
	if at := len(g.row); below && at < len(g.above) {
		text = g.above[at]
	}
	for i := range min(max(span, 1), maxRepeats) {
		if len(g.row) >= mostColumns {
			return
		}
		if i > 0 && len(text) > maxRepeated {
			text = ""
		}
		g.row = append(g.row, text)
	}
}

// finishRow ends a row and gives it as Markdown writes it.
func (g *mergedRows) finishRow() string {
	out := tableRow(g.row)
	for i, text := range g.row {
		if len(text) > maxRepeated {
			g.row[i] = ""
		}
	}
	g.above, g.row = g.row, g.above[:0]
	return out
}

// cellAt is a place on a sheet.
type cellAt struct{ row, column int }

// reach is how far a merged cell reaches.
type reach struct{ rows, columns int }

type merged struct {
	cellAt
	last  cellAt
	value string
}

var mergedCells = regexp.MustCompile(
	`mergeCell\s[^>]*ref="\$?([A-Z]{1,3})\$?([0-9]{1,7}):\$?([A-Z]{1,3})\$?([0-9]{1,7})"`)

// maxMerges of a sheet are read.
const maxMerges = 100_000

// findMerges finds the merged cells of a sheet, which stand behind its rows.
func (p *parts) findMerges(name string) (map[cellAt]reach, error) {
	file := p.findFile(name)
	if file == nil {
		return nil, nil
	}
	part, err := p.openPart(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = part.Close() }()
	before := p.read
	defer func() { p.read = before }() // it is read again
	plain, _ := toUTF8(part)
	in, out := bufio.NewReaderSize(plain, 64<<10), map[cellAt]reach{}
	for {
		tag, err := in.ReadSlice('>')
		if bytes.Contains(tag, []byte("mergeCell ")) && len(out) < maxMerges {
			if found := mergedCells.FindSubmatch(tag); found != nil {
				from, to := cellOf(found[1], found[2]), cellOf(found[3], found[4])
				out[from] = reach{to.row - from.row, to.column - from.column}
			}
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

func cellOf(column, row []byte) cellAt {
	number, _ := strconv.Atoi(string(row))
	return cellAt{number, columnNumber(string(column))}
}
