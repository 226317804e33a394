package office

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/document/tables"
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
		if len(g.row) >= tables.MostColumns {
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
	out := tables.FormatRow(g.row)
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

// filteredRow finds the row with the buttons of a filter, which names columns.
var filteredRow = regexp.MustCompile(`autoFilter\s[^>]*ref="\$?[A-Z]{1,3}\$?([0-9]{1,7})`)

// maxMerges of a sheet are read.
const maxMerges = 100_000

// findMerges finds the merged cells of a sheet, which stand behind its rows, and the row of its filter, 0 for none.
func (p *parts) findMerges(name string) (merges map[cellAt]reach, filtered int, err error) {
	file := p.findFile(name)
	if file == nil {
		return nil, 0, nil
	}
	part, err := p.openPart(file)
	if err != nil {
		return nil, 0, err
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
		if found := filteredRow.FindSubmatch(tag); found != nil {
			filtered, _ = strconv.Atoi(string(found[1]))
		}
		if errors.Is(err, io.EOF) {
			return out, filtered, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, 0, err
		}
	}
}

func cellOf(column, row []byte) cellAt {
	number, _ := strconv.Atoi(string(row))
	return cellAt{number, columnNumber(string(column))}
}

// fillMerged fills the row with the values of cells that reach into it. alone says that it has one value.
func (b *bookReader) fillMerged(alone bool) {
	left := b.active[:0]
	for _, m := range b.active {
		if m.last.row < b.number {
			continue
		}
		left = append(left, m)
		if alone && m.row == b.number { // a heading above all columns says it once
			continue
		}
		for column := m.column; column <= m.last.column; column++ {
			place := b.placeColumn(column)
			if place < 0 || place > len(b.row)+mostGaps || place >= tables.MostColumns {
				continue
			}
			for len(b.row) <= place {
				b.row = append(b.row, "")
			}
			if b.row[place] == "" {
				b.row[place] = m.value
			}
		}
	}
	b.active = left
}

// readTable learns which row names the columns of a table.
func (b *bookReader) readTable(part string) error {
	return b.parts.walkTokens(part, func(token xml.Token, _ int) error {
		start, ok := token.(xml.StartElement)
		if ok && start.Name.Local == "table" && attrOf(start, "headerRowCount") != "0" {
			first, _, _ := strings.Cut(attrOf(start, "ref"), ":")
			if row, err := strconv.Atoi(strings.TrimLeft(first, "$ABCDEFGHIJKLMNOPQRSTUVWXYZ")); err == nil {
				b.marked[row] = true
			}
		}
		return nil
	})
}
