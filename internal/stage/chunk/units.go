package chunk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/text"
)

// unit is the smallest piece of text that a cut never splits: a sentence, or a part of a very long one. Units are
// consecutive and together are the text.
type unit struct {
	s       string
	tokens  int
	paraEnd bool
	header  string // of its table, which a chunk that begins with it repeats
}

const (
	blockBytes = 64 << 10 // a longer paragraph is read in blocks of this size
	longUnit   = 2 << 10  // a longer sentence is cut at spaces
	hardUnit   = 1 << 10
)

// units reads a text as units with bounded memory.
type units struct {
	r     *bufio.Reader
	queue []unit
	carry string // the start of the next block
	err   error
	max   int    // tokens of a chunk: no unit has more than half of it, where bytes allow
	table *table // rows are units; nil: tables are as any text

	former map[int]bool // where chunks began that the text was cut into: names of columns that they repeat are dropped
	at     int          // code points before the line, with a table
	broken bool         // the line before has no end yet
	fence  string       // of the code that the line lies in
}

func newUnits(r io.Reader, max int, table *table) *units {
	return &units{r: bufio.NewReaderSize(r, blockBytes), max: max, table: table}
}

// next gives the next unit; io.EOF ends the text.
func (u *units) next() (unit, error) {
	for len(u.queue) == 0 {
		if u.err != nil {
			return unit{}, u.err
		}
		block, end, err := u.readBlock()
		u.err = err
		u.splitBlock(block, end)
	}
	x := u.queue[0]
	u.queue = u.queue[1:]
	return x, nil
}

// readBlock reads a paragraph with the blank lines that follow it, as far as these are within blockBytes, or the first
// blockBytes of a long one (end is false).
func (u *units) readBlock() (block string, end bool, err error) {
	var b strings.Builder
	b.WriteString(u.carry)
	hasText := strings.TrimSpace(u.carry) != ""
	u.carry = ""
	blank := false
	for {
		line, err := u.r.ReadSlice('\n')
		isBlank := len(bytes.TrimSpace(line)) == 0
		if blank && !isBlank {
			u.carry = string(line) // read again as the start of the next block, also where the text ends
			return b.String(), true, nil
		}
		b.Write(line)
		hasText = hasText || !isBlank
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return b.String(), true, err
		}
		blank = blank || err == nil && isBlank && hasText
		if b.Len() >= blockBytes && blank {
			return b.String(), true, nil
		}
		if b.Len() >= blockBytes {
			s := b.String()
			i := cutAt(s, len(s)-utf8.UTFMax)
			if u.table != nil && isRow(string(line)) {
				i = len(s)
			}
			u.carry = s[i:]
			return s[:i], false, nil
		}
	}
}

// cutAt returns a place at or before limit to cut a text: after a sentence, else after a space, else on a rune.
func cutAt(s string, limit int) int {
	if i := strings.LastIndex(s[:limit], ". "); i > limit/2 {
		return i + 2
	}
	if i := strings.LastIndexByte(s[:limit], ' '); i > 0 {
		return i + 1
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return limit
}

func (u *units) splitBlock(block string, end bool) {
	if u.table == nil {
		u.addSentences(block)
	} else {
		u.splitRows(block)
	}
	if end {
		u.endTable()
	}
	if n := len(u.queue); n > 0 && end {
		u.queue[n-1].paraEnd = true
	}
}

// splitRows makes each row of a table one unit, and those that name its columns one.
func (u *units) splitRows(block string) {
	start, at := 0, 0 // of what is no row; of the line
	for line := range strings.Lines(block) {
		if code := !u.broken && u.isCode(line); code || u.broken || !isRow(line) {
			u.endTable()
		} else {
			u.addSentences(block[start:at])
			start = at + len(line)
			if !u.isRepeated(line) {
				u.addRow(line)
			}
		}
		at += len(line)
		u.at += utf8.RuneCountInString(line)
		u.broken = !strings.HasSuffix(line, "\n")
	}
	u.addSentences(block[start:])
}

func (u *units) addSentences(of string) {
	if of == "" {
		return
	}
	for _, sentence := range text.Sentences(of) {
		u.addUnits(sentence, "")
	}
}

// addUnits adds a sentence or a row, a long one in parts.
func (u *units) addUnits(rest, header string) {
	hard := min(hardUnit, u.max)
	for len(rest) > hard && (len(rest) > longUnit || tokens.Count(rest) > u.max/2) {
		i := cutAt(rest, hard)
		u.queue = append(u.queue, unit{s: rest[:i], tokens: tokens.Count(rest[:i]), header: header})
		rest, header = rest[i:], ""
	}
	u.queue = append(u.queue, unit{s: rest, tokens: tokens.Count(rest), header: header})
}

// hash64 returns FNV-1a with a final mix: equal on every machine.
func hash64(parts ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for i := 0; i < len(p); i++ {
			h = (h ^ uint64(p[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd
	return h ^ (h >> 33)
}
