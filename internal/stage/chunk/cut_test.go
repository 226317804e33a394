package chunk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

var stable = core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 1500}

func chunks(t *testing.T, s string, c core.Chunking, former ...cutting) []cutting {
	var out []cutting
	add := func(x cutting) error { out = append(out, x); return nil }
	require.NoError(t, cutChunks(strings.NewReader(s), c, startsOf(former), add))
	return out
}

func startsOf(cs []cutting) map[int]bool {
	out := map[int]bool{}
	for _, x := range cs {
		out[x.start] = true
	}
	return out
}

// sourceOf returns the text that chunks were cut from.
func sourceOf(t *testing.T, cs []cutting, max int) string {
	var out strings.Builder
	u := newUnits(strings.NewReader(joinPieces(cs)), max, new(table))
	for u.former = startsOf(cs); ; {
		x, err := u.next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		require.NoError(t, err)
		out.WriteString(x.s)
	}
}

var words = strings.Fields(`the river system carried grain from northern provinces while merchants in Haarlem kept
ledgers of copper and salt under royal licence since early autumn when ships returned with cargo`)

// prose makes n paragraphs of some sentences each.
func prose(r *rand.Rand, n int) []string {
	ps := make([]string, n)
	for i := range ps {
		var text strings.Builder
		for range 2 + r.IntN(7) {
			k := 6 + r.IntN(20)
			for j := range k {
				w := words[r.IntN(len(words))]
				if j == 0 {
					w = strings.ToUpper(w[:1]) + w[1:]
				}
				text.WriteString(w)
				if j < k-1 {
					text.WriteByte(' ')
				}
			}
			fmt.Fprintf(&text, " %d. ", r.IntN(10000))
		}
		ps[i] = strings.TrimSpace(text.String())
	}
	return ps
}

// joinPieces returns the text that chunks are slices of.
func joinPieces(cs []cutting) string {
	var all strings.Builder
	for _, x := range cs {
		all.WriteString(x.piece)
	}
	return all.String()
}

// check proves what holds for every chunking: pieces are the document, chunks are verbatim slices, sizes are bounded.
func check(t *testing.T, s string, cs []cutting, chunking core.Chunking) {
	rs := []rune(s)
	for i, x := range cs {
		got := string(rs[x.start : x.start+utf8.RuneCountInString(x.text)])
		require.True(t, got == x.text, "chunk %d is no slice of the document", i)
		n := tokens.Count(x.text)
		assert.True(t, chunking.Strategy == "document" || n <= chunking.MaxTokens+chunking.MaxTokens/50,
			"chunk %d has %d tokens", i, n)
	}
	require.True(t, chunking.Strategy == "fixed" || joinPieces(cs) == s, "the pieces are not the document")
}

func TestPiecesAreTheDocumentAndChunksAreSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	texts := map[string]string{
		"prose": strings.Join(prose(r, 120), "\n\n"), "one line without end": strings.Repeat("word after word ", 6000),
		"one word without end": strings.Repeat("x", 30_000), "many blank lines": "a\n\n\n\n\nb\n \n\t\n\nc",
		"signs": strings.Repeat("é漢字🙂 ", 4000), "leading blanks": "\n\n  \n" + strings.Join(prose(r, 30), "\n\n") + "\n\n\n",
		"empty": "", "blank": " \n\n ",
	}
	chunkings := []core.Chunking{
		stable,
		{Strategy: "text", Boundaries: "packed", MaxTokens: 300},
		{Strategy: "fixed", MaxTokens: 500, Overlap: 64},
		{Strategy: "document"},
	}
	for name, s := range texts {
		for _, c := range chunkings {
			t.Run(name+" "+c.Strategy+" "+c.Boundaries, func(t *testing.T) { check(t, s, chunks(t, s, c), c) })
		}
	}
}

func TestChunksDoNotDependOnHowTheTextIsRead(t *testing.T) {
	s := strings.Join(prose(rand.New(rand.NewPCG(2, 2)), 100), "\n\n")
	want := fmt.Sprint(chunks(t, s, stable))
	for name, r := range map[string]io.Reader{
		"byte by byte": iotest.OneByteReader(strings.NewReader(s)), "halves": iotest.HalfReader(strings.NewReader(s)),
	} {
		var got []cutting
		require.NoError(t, cutChunks(r, stable, nil, func(x cutting) error { got = append(got, x); return nil }))
		assert.Equal(t, want, fmt.Sprint(got), "%s: other chunks", name)
	}
}

// rows of a table; columns are named, perhaps by the row between bars of Markdown, or not.
func tableOf(r *rand.Rand, head string, rows int) string {
	var out strings.Builder
	out.WriteString(head)
	for i := range rows {
		maker := words[r.IntN(len(words))]
		fmt.Fprintf(&out, "| Pump no. %d, by Dr. %s | %d.50 EUR | %d |\n", i, maker, r.IntN(900), r.IntN(9))
	}
	return out.String()
}

// A chunk that begins within a table begins with the names of its columns, rows are whole, and the text is cut
// into the same chunks again.
func TestAChunkWithinATableBeginsWithItsHeader(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const names, dashes = "| Item | Price | 2026 |\n", "| --- | --- | --- |\n"
	for name, c := range map[string]struct{ head, repeats string }{
		"names":         {names + dashes, names},
		"a title":       {"| Stock of Oslo |\n" + names + dashes, "| Stock of Oslo |\n" + names},
		"a top border":  {dashes + names + dashes, names},
		"groups":        {"|  | Costs | Costs |\n" + names + dashes, "|  | Costs | Costs |\n" + names},
		"a long title":  {"| " + strings.Repeat("Stock ", 300) + "|\n" + names + dashes, names},
		"numbers":       {"| 1 | 2 | 3 |\n|---|:-:|--:|\n", "| 1 | 2 | 3 |\n"},
		"no dashes":     {names, ""},
		"missing":       {names + "| Ada | 1 | 2 |\n| - | - | - |\n", ""},
		"code":          {"```text\n" + names + dashes, ""},
		"no names":      {"", ""},
		"numbers first": {"| Ada | 12 | 3.5 % |\n", ""},
		"long names":    {"| " + strings.Repeat("Item ", 300) + "| Price |\n" + dashes, ""},
	} {
		for _, rows := range []int{60, 3000} { // the larger one is more than a block
			before, after := strings.Join(prose(r, 3), "\n\n")+"\n\n", "\n"+strings.Join(prose(r, 9), "\n\n")
			source := before + tableOf(r, c.head, rows) + names + names + tableOf(r, names, rows) + after // equal rows
			for _, boundaries := range []string{"stable", "packed"} {
				chunking := core.Chunking{Strategy: "text", Boundaries: boundaries, MaxTokens: 300}
				cs := chunks(t, source, chunking)
				text := joinPieces(cs)
				check(t, text, cs, chunking)
				for i, x := range cs {
					first := strings.SplitAfter(x.text, "\n")[0]
					header := c.head != "" && strings.Contains(c.head, first) || !strings.HasPrefix(first, "|")
					alone := first == dashes && !strings.HasPrefix(x.text, dashes+names)
					require.False(t, c.repeats != "" && alone, "%s: %d: cut from its dashes", name, i)
					row := c.repeats == "" && strings.HasPrefix(first, "| Pump no.") || first == names
					require.True(t, header || row, "%s: %d: %s", name, i, x.text)
				}
				if c.repeats == "" {
					assert.Equal(t, source, text, name)
				} else {
					assert.Greater(t, strings.Count(text, c.repeats)-strings.Count(source, c.repeats), rows/20, name)
				}
				require.True(t, source == sourceOf(t, cs, chunking.MaxTokens), name)
				assert.Equal(t, fmt.Sprint(cs), fmt.Sprint(chunks(t, text, chunking, cs...)), "%s: cut again", name)
			}
		}
	}
}

func TestStableChunksLieBetweenTheirBounds(t *testing.T) {
	cs := chunks(t, strings.Join(prose(rand.New(rand.NewPCG(3, 3)), 400), "\n\n"), stable)
	for i, c := range cs[:len(cs)-1] {
		assert.True(t, c.tokens >= 400 && c.tokens <= 1500, "chunk %d has %d tokens", i, c.tokens)
	}
}

func TestAnEditChangesFewChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const edits = 40
	total, most := 0, 0
	for range edits {
		ps := prose(r, 60)
		before := map[string]bool{}
		for _, c := range chunks(t, strings.Join(ps, "\n\n"), stable) {
			before[c.text] = true
		}
		i := r.IntN(len(ps))
		switch r.IntN(3) {
		case 0:
			ps[i] += " One more sentence stands here."
		case 1:
			ps = append(ps[:i], append(prose(r, 1), ps[i:]...)...)
		default:
			ps = append(ps[:i], ps[i+1:]...)
		}
		n := 0
		for _, c := range chunks(t, strings.Join(ps, "\n\n"), stable) {
			if !before[c.text] {
				n++
			}
		}
		total += n
		most = max(most, n)
	}
	mean := float64(total) / edits
	assert.False(t, mean > 1.6 || most > 4,
		"changed chunks: mean %.2f (want at most 1.6), most %d (want at most 4)", mean, most)
}

// The reference's windows: 1500 tokens, step 1372.
func TestFixedWindowsOverlapAsTheReferenceDoes(t *testing.T) {
	c := core.Chunking{Strategy: "fixed", MaxTokens: 1500, Overlap: 128}
	s := strings.Join(prose(rand.New(rand.NewPCG(6, 6)), 200), " ")
	n := len(tokens.Split(s))
	cs := chunks(t, s, c)
	want := 1
	for start := 0; start+1500 < n; start += 1372 {
		want++
	}
	d := len(cs) - want
	assert.True(t, d >= -1 && d <= 1, "%d windows of %d tokens, want %d", len(cs), n, want)
	for i := 1; i < len(cs); i++ {
		if prev := cs[i-1]; cs[i].start >= prev.start+utf8.RuneCountInString(prev.text) {
			t.Errorf("window %d does not overlap the one before", i)
		}
	}
}

func FuzzPiecesAreTheDocument(f *testing.F) {
	f.Add("a. b\n\nc")
	f.Add("é\u0301\r\nx")
	f.Add("| a | b |\n|---|---|\n" + strings.Repeat("| a | b |\n| 1 | 2 |\n", 40))
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // texts are decoded before they are cut
		}
		c := core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 60}
		cs := chunks(t, s, c)
		check(t, joinPieces(cs), cs, core.Chunking{Strategy: "document"})
		require.Equal(t, s, sourceOf(t, cs, c.MaxTokens))
	})
}

// Records of any size do not gather in memory: what is given and not done yet has aheadRoom at most, or is one record.
func TestWhatWaitsIsBoundedByItsBytes(t *testing.T) {
	sizes := []int64{1, aheadRoom, 3 * aheadRoom, aheadRoom / 2, aheadRoom / 2, aheadRoom / 2, 0, 2}
	plan := func(yield func(artifact.Row, error) bool) {
		for _, size := range sizes {
			if !yield(artifact.Row{Key: []byte("r#1"), Value: rows.Plan{Line: 1, Size: size}.Encode()}, nil) {
				return
			}
		}
	}
	room := semaphore.NewWeighted(aheadRoom)
	next, stop := iter.Pull2(streamUpcoming(t.Context(), plan, room))
	defer stop()
	for i, size := range sizes {
		given, err, ok := next()
		require.True(t, ok && err == nil && given.plan.Size == size, "%d: %+v, %v", i, given, err)
		full := !room.TryAcquire(aheadRoom - given.room + 1)
		assert.True(t, full, "a record of %d bytes takes room for %d", size, given.room)
		room.Release(given.room)
	}
	// While nothing is done, a record that takes all the room waits for the one before it.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := 0
	for _, err := range streamUpcoming(ctx, plan, semaphore.NewWeighted(aheadRoom)) {
		if err != nil {
			break
		}
		given++
		cancel()
	}
	assert.Equal(t, 1, given)
}

// Looked at again behind each of them, so many blank lines would take hours; in one block they would take gigabytes.
func TestBlankLinesAreReadOnceAndInBlocks(t *testing.T) {
	content := "a\n" + strings.Repeat("\n", 8<<20) + "b"
	u, whole := newUnits(strings.NewReader(content), 100, nil), 0
	for err := error(nil); err == nil; {
		var block string
		block, _, err = u.readBlock()
		whole += len(block)
		require.LessOrEqual(t, len(block), 2*blockBytes)
	}
	assert.Equal(t, len(content), whole)
	assert.True(t, content == joinPieces(chunks(t, content, stable)), "its pieces are another text")
}

// A text is no longer cut than its unit runs, though no chunk comes of it.
func TestCuttingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	blank := func(out []byte) (int, error) {
		if reads++; reads == 3 {
			cancel()
		}
		switch {
		case reads == 1:
			return copy(out, "a\n"), nil
		case reads > 100:
			return 0, io.EOF
		}
		return copy(out, bytes.Repeat([]byte{'\n'}, len(out))), nil
	}
	b := &builder{In: In{Spec: core.Spec{Chunking: stable}, OnProgress: func(int64) {}}}
	d := &draft{}
	defer d.cuts.Close()
	err := b.cutText(ctx, readerFunc(blank), nil, d)
	assert.True(t, errors.Is(err, context.Canceled) && reads <= 4, "%d reads, %v", reads, err)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(out []byte) (int, error) { return f(out) }
