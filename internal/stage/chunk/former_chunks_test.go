package chunk_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// chunks reads the chunks of a document as the stages after this one will.
func (r *run) chunks(key string) (all []rows.Chunk) {
	r.t.Helper()
	for row, err := range artifact.ScanAll(r.t.Context(), r.art.Store, r.chunkRows()) {
		require.NoError(r.t, err)
		if string(row.Key) != key {
			continue
		}
		c := stagetest.Must(rows.DecodeChunk(row.Value))
		all = append(all, c)
	}
	return all
}

var long = strings.Repeat("Grain was carried down the river é. It froze in 1911! ", 60)

// Whatever makes a document unusable, it keeps what it was: text, chunks, title, metadata, version, time.
// Promises: 57.
func TestADocumentThatCannotBeUsedKeepsWhatItWas(t *testing.T) {
	denied := fault.StoreDenied.At("read", "object")
	one := `{"id":"1","text":"one"}` + "\n"
	for name, c := range map[string]struct {
		key    string
		damage func(*run)
		code   fault.Code
	}{
		"binary":         {"a.txt", func(r *run) { r.corpus.Set("a.txt", "\x7fELF\x00\x00\x01") }, fault.BinaryContent},
		"empty":          {"a.txt", func(r *run) { r.corpus.Set("a.txt", "") }, fault.EmptyDocument},
		"blank":          {"b.md", func(r *run) { r.corpus.Set("b.md", " \n\n") }, fault.EmptyDocument},
		"no gzip":        {"c.md.gz", func(r *run) { r.corpus.Set("c.md.gz", "no gzip") }, fault.Unreadable},
		"truncated gzip": {"c.md.gz", func(r *run) { r.corpus.Set("c.md.gz", gz(r.t, long)[:40]) }, fault.Unreadable},
		"broken JSON":    {"d.json", func(r *run) { r.corpus.Set("d.json", "{") }, fault.Unreadable},
		"a read that breaks": {"a.txt", func(r *run) {
			r.corpus.Set("a.txt", strings.Repeat("new words ", 40_000))
			r.corpus.Break["a.txt"] = errors.New("connection reset")
		}, fault.Unreadable},
		"denied": {"a.txt", func(r *run) { r.corpus.Open["a.txt"] = denied }, fault.StoreDenied},
		"an empty row": {"rows.jsonl#2", func(r *run) {
			r.corpus.Set("rows.jsonl", one+`{"id":"2"}`)
		}, fault.EmptyDocument},
		"a row that is cut": {"rows.jsonl#2", func(r *run) {
			r.corpus.Set("rows.jsonl", one+`{"id":"2","te`)
		}, fault.Unreadable},
		"an object with rows": {"rows.jsonl#1", func(r *run) {
			r.corpus.Open["rows.jsonl"] = denied
		}, fault.StoreDenied},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{
				"a.txt": "The river\n\n" + long, "b.md": "intro\n\n# The heading\n\n" + long, "c.md.gz": gz(t, "# Packed\n\n"+long),
				"d.json":     `{"title":"A record","text":"` + long + `","year":1999}`,
				"rows.jsonl": one + `{"id":"2","title":"Two","text":"` + long + `","lang":"en"}`,
			})
			first := r.night()
			before, chunks := r.documents(first)[c.key], r.chunks(c.key)
			text := r.text(first, c.key, before, 0, -1)
			c.damage(r)
			for night := range 2 { // the second is built from a stale parent
				res := r.night()
				after := r.documents(res)[c.key]
				require.True(t, after.Stale && after.Problem == string(c.code),
					"night %d: stale %v, problem %q", night, after.Stale, after.Problem)
				same := after
				same.Stale, same.Found, same.Problem = false, core.Digest{}, ""
				same.ETag, same.Size, same.Frame = before.ETag, before.Size, before.Frame
				assert.Equal(t, before, same, "night %d", night)
				if got := r.chunks(c.key); len(got) != len(chunks) || got[0].Title != chunks[0].Title ||
					got[len(got)-1].Tokens != chunks[len(got)-1].Tokens {
					t.Errorf("night %d: %d chunks, want %d", night, len(got), len(chunks))
				}
				got := r.text(res, c.key, after, 0, -1)
				assert.True(t, got == text, "night %d: its text is %d bytes, was %d", night, len(got), len(text))
				if res.Failed == 0 || res.Counts.Stale != res.Failed || res.Lapsed.Documents != res.Failed ||
					res.Lapsed.Chunks < int64(len(chunks)) || (name != "an object with rows" && res.Hashes != first.Hashes) {
					t.Errorf("night %d: %+v", night, res)
				}
			}
		})
	}
}

// A stale document is cut as every other document of its generation is.
func TestANewChunkerCutsStaleDocumentsToo(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": long, "b.txt": long})
	r.night()
	r.corpus.Set("a.txt", "")
	r.spec.Chunking.MaxTokens = 200
	documents := r.documents(r.night())
	if a, b := documents["a.txt"], documents["b.txt"]; !a.Stale || len(a.Chunks) != len(b.Chunks) ||
		a.Chunks[1].Start != b.Chunks[1].Start {
		t.Errorf("%d and %d chunks", len(a.Chunks), len(b.Chunks))
	}
}

func TestNothingIsKeptOfAnotherCorpus(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": long, "b.txt": long, "c.jsonl": `{"id":"1","text":"one"}`})
	r.night()
	r.corpus.Set("a.txt", "")
	r.corpus.Open["c.jsonl"] = fault.StoreDenied.At("read", "c.jsonl")
	r.keeps = false
	res := r.night()
	documents := r.documents(res)
	if a := documents["a.txt"]; len(documents) != 2 || a.Stale || len(a.Chunks) != 0 || res.Empty != 1 || res.Failed != 0 {
		t.Errorf("%d documents, %+v, %+v", len(documents), a, res)
	}
}

// Where the parent's text is damaged there is nothing to keep; that is reported, and counts.
func TestWhatTheParentLostIsTold(t *testing.T) {
	for name, damage := range map[string]func(*run){
		"gone": func(r *run) {
			require.NoError(r.t, r.art.Store.Delete(r.t.Context(), r.art.SegmentKey(r.parent.Segments.Text[0].SHA256)))
		},
		"another document's": func(r *run) {
			other := newRun(r.t, map[string]string{"z.txt": long})
			text := other.night().Text
			body, _, err := other.art.Store.Get(r.t.Context(), other.art.SegmentKey(text.SHA256), everything)
			require.NoError(r.t, err)
			raw := stagetest.Must(io.ReadAll(body))
			put(r, r.art.SegmentKey(r.parent.Segments.Text[0].SHA256), raw)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{"a.txt": long, "b.txt": long})
			r.night()
			r.corpus.Set("a.txt", "")
			units := r.plan().Units
			damage(r)
			res, err := r.chunk(t.Context(), 0, units)
			if err != nil || res.Failed != 1 || res.Counts.Stale != 0 || res.Lapsed.Documents != 1 || res.Empty != 0 ||
				res.ProblemCount != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			assert.Contains(t, fmt.Sprint(res.Problems), "what was there before is lost")
		})
	}
}

// Half a document would pass for a whole one.
func TestOfANewDocumentThatBreaksOffNothingIsTaken(t *testing.T) {
	whole := gz(t, strings.Repeat(long, 40))
	r := newRun(t, map[string]string{"a.txt": "fine", "cut.md.gz": whole[:len(whole)-9]})
	res := r.night()
	cut := r.documents(res)["cut.md.gz"]
	if len(cut.Chunks) != 0 || cut.Problem != string(fault.Unreadable) || cut.Stale || cut.Runes != 0 || res.Failed != 1 ||
		res.Counts.Chunks != 1 || res.Lapsed != (chunk.Lapsed{}) {
		t.Fatalf("%+v, %+v", cut, res)
	}
}
