package chunk

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// ChunkerVersion is raised when cuts move.
// 4: rows of tables are whole, and a chunk that begins within a table begins with the rows that name its columns, which
// stand above a row of dashes and are not cut from it.
const ChunkerVersion = "chunk/4"

// cutting is one chunk as a chunker gives it. Piece is the text from the chunk's raw start to that of the next; pieces
// together are the document. Text is trimmed and lies in the document from Start on (code points).
type cutting struct {
	piece  string
	text   string
	start  int
	tokens int
	header int // code points at the beginning that the text which was read has further up only
}

// minShare is the smallest chunk as a share of the largest (400 of 1,500 tokens).
const minShare = 400.0 / 1500

// maxWhole bounds a document that is one chunk.
const maxWhole = 4 << 20

// cutChunks reads a text and gives its chunks in order. Those that begin within a table begin with the rows that name
// its columns, which their text has more than the one that was read. Of a text that was cut before, former are the
// places where chunks began: there such rows are dropped.
func cutChunks(reader io.Reader, chunking core.Chunking, former map[int]bool, emit func(cutting) error) error {
	if chunking.Strategy == "document" {
		return cutWhole(reader, emit)
	}
	if chunking.MaxTokens < 1 || chunking.Overlap >= chunking.MaxTokens {
		return fault.BadConfig.At("chunk", "").
			Because(fmt.Sprintf("chunks of %d tokens with an overlap of %d end nowhere", chunking.MaxTokens, chunking.Overlap)).
			Advise("send the whole configuration of the index")
	}
	if chunking.Strategy == "fixed" {
		return cutFixed(reader, chunking, emit)
	}
	units := newUnits(reader, chunking.MaxTokens, nil)
	units.table, units.former = new(table), former
	return cutPacked(units, chunking, emit)
}

func cutWhole(r io.Reader, emit func(cutting) error) error {
	raw, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	if err != nil {
		return err
	}
	if len(raw) > maxWhole {
		return fault.TooLarge.At("read", "").
			Because("a document that is a single passage can have at most 4 MiB").
			Advise("use chunking.strategy: text")
	}
	s := string(raw)
	return emit(trimPiece(s, s, 0, tokens.Count(s)))
}

// trimPiece drops white space around a chunk's text and moves its start.
func trimPiece(piece, raw string, at, n int) cutting {
	left := strings.TrimLeftFunc(raw, unicode.IsSpace)
	skipped := utf8.RuneCountInString(raw[:len(raw)-len(left)])
	return cutting{piece: piece, text: strings.TrimRightFunc(left, unicode.IsSpace), start: at + skipped, tokens: n}
}

// packer collects units until a chunk is full.
type packer struct {
	max, min int
	stable   bool
	buf      []unit
	tokens   int
	at       int // code points before buf
	repeated int // 1: buf begins with a header that stands further up, too
	emit     func(cutting) error
}

// cutPacked cuts at paragraph ends, else at sentence ends. Stable boundaries take, of the cuts that leave between min
// and max tokens, the one whose neighbours have the smallest hash: an edit elsewhere leaves it where it is.
func cutPacked(u *units, c core.Chunking, emit func(cutting) error) error {
	p := &packer{
		max:    c.MaxTokens,
		min:    int(minShare * float64(c.MaxTokens)),
		stable: c.Boundaries != "packed",
		emit:   emit,
	}
	for {
		x, err := u.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for p.tokens+x.tokens > p.max && len(p.buf) > p.repeated {
			if err := p.flushChunk(max(p.chooseCount(x), p.repeated+1)); err != nil {
				return err
			}
			p.repeatHeader(x)
		}
		p.buf = append(p.buf, x)
		p.tokens += x.tokens
	}
	if len(p.buf) > 0 {
		return p.flushChunk(len(p.buf))
	}
	return nil
}

// chooseCount returns how many units of the buffer make the next chunk; next is the unit after the buffer.
func (p *packer) chooseCount(next unit) int {
	if !p.stable {
		for i := len(p.buf); i > 0; i-- {
			if p.buf[i-1].paraEnd && p.sumTokens(i) >= p.min {
				return i
			}
		}
		return len(p.buf)
	}
	bestPara, bestSent := 0, 0
	var hashPara, hashSent uint64
	n := 0
	for i, x := range p.buf {
		n += x.tokens
		if n < p.min {
			continue
		}
		after := next.s
		if i+1 < len(p.buf) {
			after = p.buf[i+1].s
		}
		h := hash64(x.s, after)
		if x.paraEnd && (bestPara == 0 || h < hashPara) {
			bestPara, hashPara = i+1, h
		}
		if bestSent == 0 || h < hashSent {
			bestSent, hashSent = i+1, h
		}
	}
	switch {
	case bestPara > 0:
		return bestPara
	case bestSent > 0:
		return bestSent
	}
	return len(p.buf)
}

// repeatHeader begins the next chunk with the header of the table that it begins in; x is the unit behind the buffer.
func (p *packer) repeatHeader(x unit) {
	first := x
	if len(p.buf) > 0 {
		first = p.buf[0]
	}
	if p.repeated = 0; first.header != "" {
		header := unit{s: first.header, tokens: tokens.Count(first.header)}
		p.buf, p.tokens, p.repeated = slices.Insert(p.buf, 0, header), p.tokens+header.tokens, 1
	}
}

func (p *packer) sumTokens(n int) int {
	t := 0
	for _, x := range p.buf[:n] {
		t += x.tokens
	}
	return t
}

func (p *packer) flushChunk(n int) error {
	var text strings.Builder
	for _, x := range p.buf[:n] {
		text.WriteString(x.s)
	}
	t := p.sumTokens(n)
	raw := text.String()
	c := trimPiece(raw, raw, p.at, t)
	if p.repeated > 0 {
		c.header = utf8.RuneCountInString(p.buf[0].s)
	}
	p.at += utf8.RuneCountInString(raw)
	p.buf = append(p.buf[:0], p.buf[n:]...)
	p.tokens -= t
	return p.emit(c)
}

// cutFixed reproduces the windows of the reference implementation (docs/reference/formats.md, Chunking): max tokens, a
// step of max less overlap, on borders of runes.
func cutFixed(r io.Reader, chunking core.Chunking, emit func(cutting) error) error {
	u := newUnits(r, chunking.MaxTokens, nil)
	var buf string
	var lens []int
	at, done := 0, false
	step := chunking.MaxTokens - chunking.Overlap
	for {
		for !done && len(lens) <= chunking.MaxTokens {
			x, err := u.next()
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if err != nil {
				return err
			}
			buf += x.s
			lens = append(lens, tokens.Split(x.s)...)
		}
		if len(lens) == 0 {
			return nil
		}
		if len(lens) <= chunking.MaxTokens {
			return emit(trimPiece(buf, buf, at, len(lens)))
		}
		end, next := bytesOf(buf, lens, chunking.MaxTokens), bytesOf(buf, lens, step)
		if err := emit(trimPiece(buf[:next], buf[:end], at, chunking.MaxTokens)); err != nil {
			return err
		}
		at += utf8.RuneCountInString(buf[:next])
		buf = buf[next:]
		lens = lens[step:]
	}
}

// bytesOf returns the length of the first n tokens, moved to the border of a rune.
func bytesOf(s string, lens []int, n int) int {
	b := 0
	for _, l := range lens[:n] {
		b += l
	}
	for b < len(s) && !utf8.RuneStart(s[b]) {
		b++
	}
	return min(b, len(s))
}
