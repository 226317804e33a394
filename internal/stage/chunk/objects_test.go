package chunk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

var everything = blob.All

func put(r *run, key string, raw []byte) {
	stagetest.Must(r.art.Store.Put(r.t.Context(), key, bytes.NewReader(raw), int64(len(raw)), blob.Cond{}))
}

func versionOf(text string) core.Digest { return sha256.Sum256([]byte(text)) }

// A document that is written to whenever it is read is not indexed half: what it was is kept, and where there was
// nothing, nothing is.
func TestADocumentThatNeverRestsKeepsWhatItWas(t *testing.T) {
	for name, restless := range map[string]func(*run, func(string)){
		"when it is opened": func(r *run, write func(string)) { r.corpus.Touched = write },
		"while it is read":  func(r *run, write func(string)) { r.corpus.Torn = write },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, map[string]string{"log.txt": "quiet " + long, "b.txt": "other"})
			before := r.documents(r.night())["log.txt"]
			r.corpus.Set("log.txt", "written to 0")
			r.corpus.Set("new.txt", "written to 0")
			units := r.plan().Units
			var writes atomic.Int64
			restless(r, func(key string) {
				if key != "b.txt" {
					r.corpus.Set(key, fmt.Sprintf("written to %d %s", writes.Add(1), strings.Repeat("word ", 200)))
				}
			})
			res := stagetest.Must(r.chunk(t.Context(), 0, units))
			documents := r.documents(res)
			log, fresh := documents["log.txt"], documents["new.txt"]
			assert.True(t, log.Stale && log.Problem == string(fault.DocumentChanged) && log.Version == before.Version &&
				fmt.Sprint(log.Chunks) == fmt.Sprint(before.Chunks), "%+v", log)
			assert.True(t, fresh.Problem == string(fault.DocumentChanged) && len(fresh.Chunks) == 0 && !fresh.Stale,
				"%+v", fresh)
			reads := r.corpus.Reads("log.txt")
			assert.True(t, reads >= 4 && res.Failed == 2 && res.Counts.Stale == 1, "read %d times, %+v", reads, res)
		})
	}
}

// A read that mixes two versions under one ETag is not served: the bytes are not those of plan, so they are read again.
// Promises: 58.
func TestATornReadIsReadAgain(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "first"})
	units := r.plan().Units
	reads := 0
	r.corpus.Touched = func(key string) {
		if reads++; reads == 1 {
			r.corpus.Forge(key, "fi2nd")
		} else {
			r.corpus.Forge(key, "first")
		}
	}
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	a := r.documents(res)["a.txt"]
	assert.True(t, a.Version == versionOf("first") && r.text(res, "a.txt", a, 0, -1) == "first" && reads == 2,
		"read %d times, served under %s", reads, a.Version)
}

// Where a store gives bytes of one version under an ETag, a first build reads each object once, and the night after has
// versions of all to compare with: of broken ones, empty ones and those that are too large also.
func TestAFirstBuildReadsEveryObjectOnce(t *testing.T) {
	objects := map[string]string{
		"a.txt": "Some text.", "blank.txt": " ", "broken.pdf": "no pdf", "large.md": strings.Repeat("word ", 300),
	}
	r := newRun(t, objects)
	r.corpus.OneVersion = true
	r.limits.Text = 1000
	res := r.night()
	require.True(t, res.Counts.Documents == 1 && res.Empty == 1 && res.Failed == 2, "%+v", res)
	documents := r.documents(res)
	for key, content := range objects {
		assert.Equal(t, 1, r.corpus.Reads(key), "%s was read", key)
		assert.Equal(t, versionOf(content), documents[key].Version, "%s has version", key)
	}
	again := r.plan()
	assert.True(t, again.Unchanged && r.corpus.Reads("large.md") == 0, "the night after: %+v", again)
	r.corpus.Touch("large.md", "other")
	again = r.plan()
	assert.True(t, again.Unchanged && r.corpus.Reads("large.md") == 1, "the same bytes under another ETag: %+v", again)
}

// chunks reads the chunks of a document as the stages after this one will.
func (r *run) chunks(key string) (all []rows.Chunk) {
	for row, err := range artifact.ScanAll(r.t.Context(), r.art.Store, r.chunkRows()) {
		require.NoError(r.t, err)
		if string(row.Key) != key {
			continue
		}
		all = append(all, stagetest.Must(rows.DecodeChunk(row.Value)))
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
		"truncated gzip": {"c.md.gz", func(r *run) { r.corpus.Set("c.md.gz", documenttest.Gzip(long)[:40]) }, fault.Unreadable},
		"broken JSON":    {"d.json", func(r *run) { r.corpus.Set("d.json", "{") }, fault.Unreadable},
		"a read that breaks": {"a.txt", func(r *run) {
			r.corpus.Set("a.txt", strings.Repeat("new words ", 40_000))
			r.corpus.Break["a.txt"] = errors.New("connection reset")
		}, fault.Unreadable},
		"denied":       {"a.txt", func(r *run) { r.corpus.Open["a.txt"] = denied }, fault.StoreDenied},
		"an empty row": {"rows.jsonl#2", func(r *run) { r.corpus.Set("rows.jsonl", one+`{"id":"2"}`) }, fault.EmptyDocument},
		"a row that is cut": {"rows.jsonl#2", func(r *run) {
			r.corpus.Set("rows.jsonl", one+`{"id":"2","te`)
		}, fault.Unreadable},
		"an object with rows": {"rows.jsonl#1", func(r *run) { r.corpus.Open["rows.jsonl"] = denied }, fault.StoreDenied},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{
				"a.txt": "The river\n\n" + long, "b.md": "intro\n\n# The heading\n\n" + long,
				"c.md.gz":    documenttest.Gzip("# Packed\n\n" + long),
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
				assert.True(t, res.Failed != 0 && res.Counts.Stale == res.Failed && res.Lapsed.Documents == res.Failed &&
					res.Lapsed.Chunks >= int64(len(chunks)) && (name == "an object with rows" || res.Hashes == first.Hashes),
					"night %d: %+v", night, res)
			}
		})
	}
}

func TestANewChunkerCutsStaleDocumentsToo(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": long, "b.txt": long})
	r.night()
	r.corpus.Set("a.txt", "")
	r.spec.Chunking.MaxTokens = 200
	documents := r.documents(r.night())
	a, b := documents["a.txt"], documents["b.txt"]
	assert.True(t, a.Stale && len(a.Chunks) == len(b.Chunks) && a.Chunks[1].Start == b.Chunks[1].Start, "%d and %d chunks",
		len(a.Chunks), len(b.Chunks))
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
			require.True(t, err == nil && res.Failed == 1 && res.Counts.Stale == 0 && res.Lapsed.Documents == 1 &&
				res.Empty == 0 && res.ProblemCount == 1, "%+v, %v", res, err)
			assert.Contains(t, fmt.Sprint(res.Problems), "what was there before is lost")
		})
	}
}

// Half a document would pass for a whole one.
func TestOfANewDocumentThatBreaksOffNothingIsTaken(t *testing.T) {
	whole := documenttest.Gzip(strings.Repeat(long, 40))
	r := newRun(t, map[string]string{"a.txt": "fine", "cut.md.gz": whole[:len(whole)-9]})
	res := r.night()
	cut := r.documents(res)["cut.md.gz"]
	require.True(t, len(cut.Chunks) == 0 && cut.Problem == string(fault.Unreadable) && !cut.Stale && cut.Runes == 0 &&
		res.Failed == 1 && res.Counts.Chunks == 1 && res.Lapsed == (chunk.Lapsed{}), "%+v, %+v", cut, res)
}

// huge is a corpus of which one object is listed with 5 GB. Of its bytes come as many as a test can wait for.
type huge struct {
	*documenttest.Corpus
	versioned bool
	key       string
	comes     int64
	most      uint64 // bytes of the heap while it was read
}

// IsVersioned implements blob.Versioned: a first build reads such a corpus once.
func (h *huge) IsVersioned() bool { return h.versioned }

func (h *huge) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return h.ListRange(ctx, prefix, after, "")
}

func (h *huge) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range h.Corpus.ListRange(ctx, prefix, after, until) {
			if info.Key == h.key {
				info.Size = 1 << 20
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (h *huge) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := h.Corpus.Get(ctx, key, part)
	if err == nil && key == h.key {
		body, info.Size = io.NopCloser(&wordStream{huge: h, left: h.comes}), 1<<20
	}
	return body, info, err
}

// wordStream gives words without end.
type wordStream struct {
	*huge
	left int64
	read int
}

func (a *wordStream) Read(to []byte) (int, error) {
	if a.left <= 0 {
		return 0, io.EOF
	}
	to = to[:min(int64(len(to)), a.left)]
	for i := range to {
		to[i] = "words "[i%6]
	}
	a.left -= int64(len(to))
	if a.read++; a.read%256 == 0 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		a.most = max(a.most, stats.HeapAlloc)
	}
	return len(to), nil
}

// An object that has far more bytes than were listed is refused by the limits, whatever its type. It is read through
// for its version, by the plan or by the unit, in bounded memory, and beats meanwhile: silence for twelve minutes
// counts as hanging.
func TestAnObjectOfGigabytesIsRefusedInBoundedMemoryAndIsNeverSilent(t *testing.T) {
	for key, limit := range map[string]string{
		"a.txt": "limits.document.text", "a.html": "limits.document.bytes", "a.pdf": "limits.document.bytes",
	} {
		for _, versioned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, versioned %v", key, versioned), func(t *testing.T) {
				r := newRun(t, map[string]string{key: "words", "z.txt": "short"})
				r.limits.Text, r.limits.Bytes = 1<<20, 1<<20
				store := &huge{Corpus: r.corpus, versioned: versioned, key: key, comes: 100 << 20}
				before := heap()
				reported, problems := r.chunkAll(store)
				assert.True(t, len(problems) == 1 && problems[0].Code == string(fault.TooLarge) && problems[0].Object == key &&
					strings.Contains(problems[0].Detail, limit), "problems %+v", problems)
				assert.True(t, reported >= 12, "%d reports of 100 MiB", reported)
				assert.True(t, store.most <= before+48<<20, "it took %d bytes of memory", store.most-before)
			})
		}
	}
}

// heap returns how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// chunkAll plans and chunks a corpus in place of the run's; reported counts the signs of life.
func (r *run) chunkAll(store blob.Store) (reported int64, problems []core.Problem) {
	var signs atomic.Int64
	planned := stagetest.Must(plan.Run(r.t.Context(), plan.In{
		Spec: r.spec, Corpus: store, Artifacts: r.art, Scratch: r.scratch, Limits: r.limits,
		OnProgress: func(int64) {}, OnBytes: func() { signs.Add(1) },
	}))
	for unit, cut := range planned.Units {
		res := stagetest.Must(chunk.Run(r.t.Context(), chunk.In{
			Spec: r.spec, Corpus: store, Artifacts: r.art, Scratch: r.scratch, Plan: r.rows(), Unit: unit, From: cut.From,
			To: cut.To, OnProgress: func(int64) { signs.Add(1) }, Limits: r.limits, Parser: documenttest.Here{Limits: r.limits},
		}))
		problems = append(problems, res.Problems...)
	}
	return signs.Load(), problems
}

func TestSmallDocumentsOfADistantCorpusAreReadSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 400
		objects := map[string]string{}
		for i := range count {
			objects[fmt.Sprintf("%03d.txt", i)] = fmt.Sprintf("Document %d.", i)
		}
		near := documenttest.New(objects)
		near.OneVersion = true
		requests := distance.New(15 * time.Millisecond)
		index := artifact.Index{Store: blobmemory.New(), Name: "i"}
		spec := core.Spec{
			Index: "i", Corpus: "memory", Chunking: core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 60},
		}
		begin := time.Now()
		stagetest.Must(plan.Run(t.Context(), plan.In{
			Spec: spec, Corpus: distance.Blob(near, requests), Artifacts: index, Scratch: "s",
			Limits: document.DefaultLimits(), OnProgress: func(int64) {},
		}))
		passed := time.Since(begin)
		assert.True(t, passed <= 100*time.Millisecond, "plan took %s of a store at 15 ms", passed)
		begin = time.Now()
		result := stagetest.Must(chunk.Run(t.Context(), chunk.In{
			Spec: spec, Corpus: distance.Blob(near, requests), Artifacts: index, Scratch: "s", To: -1,
			Plan: stagetest.Stored(t, index.Store, plan.RowsKey("s")), Limits: document.DefaultLimits(),
			Parser: documenttest.Here{Limits: document.DefaultLimits()}, OnProgress: func(int64) {},
		}))
		if passed := time.Since(begin); result.Counts.Documents != count || passed > 15*time.Millisecond*count/10 {
			t.Errorf("%d documents in %s", result.Counts.Documents, passed)
		}
		for key := range objects {
			assert.Equal(t, 1, near.Reads(key), "%s was read", key)
		}
	})
}

// A file of metadata beside a document is no document. Its change makes the document again, with the chunks it had.
func TestMetadataBesideADocumentFollowItsFile(t *testing.T) {
	r := newRun(t, map[string]string{
		"a.md": "---\nauthor: Ada\nyear: 2019\n---\nThe lease ends in May.", "b.txt": "The boiler is old.",
		"a.md.meta.json": `{"year": 2026, "tags": ["x", "y"], "signed": true, "none": null}`, "gone.txt.meta.json": `{}`,
	})
	var ids []any
	for n, c := range []struct {
		sidecar string // empty: as it was; -: it goes
		changed int64
		meta    map[string]string
	}{
		{"", 0, map[string]string{"author": "Ada", "year": "2026", "tags": "x, y", "signed": "true"}},
		{"", 0, map[string]string{"author": "Ada", "year": "2026", "tags": "x, y", "signed": "true"}},
		{`{"year": "2027"}`, 1, map[string]string{"author": "Ada", "year": "2027"}},
		{"-", 1, map[string]string{"author": "Ada", "year": "2019"}},
		{`{"author": "Eve"}`, 1, map[string]string{"author": "Eve", "year": "2019"}},
	} {
		switch c.sidecar {
		case "":
		case "-":
			r.corpus.Remove("a.md.meta.json")
		default:
			r.corpus.Set("a.md.meta.json", c.sidecar)
		}
		planned := r.plan()
		assert.True(t, planned.Diff.Changed == c.changed && planned.Unchanged == (n > 0 && c.changed == 0),
			"%d: %+v", n, planned)
		require.Len(t, planned.Problems, 1)
		assert.Equal(t, "gone.txt.meta.json", planned.Problems[0].Object)
		res := r.night()
		documents := r.documents(res)
		assert.Len(t, documents, 2)
		assert.Equal(t, c.meta, documents["a.md"].Meta, "%d", n)
		assert.Empty(t, documents["b.txt"].Meta)
		ids = append(ids, documents["a.md"].Chunks[0].ID)
		assert.Equal(t, ids[0], ids[n])
	}
}

// A file of metadata that cannot be used takes nothing from its document, and says why.
func TestMetadataThatCannotBeUsedAreAProblem(t *testing.T) {
	for name, c := range map[string]struct{ sidecar, say string }{
		"a large one":     {`{"a": "` + strings.Repeat("x", 1<<20) + `"}`, "more than 65536 bytes"},
		"a nested one":    {`{"a": {"b": 1}}`, `field "a" is nested`},
		"a list of lists": {`{"a": [[1]]}`, `field "a" is nested`},
		"no UTF-8":        {"{\"a\": \"\xff\"}", "no JSON in UTF-8 at byte"},
		"no object":       {`[1]`, "not one JSON object"},
		"twice":           {`{"a": 1, "a": 2}`, "no JSON in UTF-8 at byte"},
		"half":            {`{"a": `, "no JSON"},
		"nothing":         {"", "no JSON"},
		"many fields":     {"{" + strings.TrimSuffix(manyFields(101), ",") + "}", "more than 100 fields"},
		"a long value":    {`{"a": "` + strings.Repeat("x", 2001) + `"}`, "more than 2000 bytes"},
	} {
		r := newRun(t, map[string]string{"a.md": "---\nauthor: Ada\n---\nThe lease.", "a.md.meta.json": c.sidecar})
		res := r.night()
		assert.Equal(t, map[string]string{"author": "Ada"}, r.documents(res)["a.md"].Meta, name)
		if assert.Len(t, res.Problems, 1, name) {
			assert.Equal(t, string(fault.PartsMissing), res.Problems[0].Code, name)
			assert.Contains(t, res.Problems[0].Detail, c.say, name)
		}
		assert.True(t, r.plan().Unchanged, name)
	}
}

// What documents say of when they hold and what they replace is checked, wherever it stands, and they are indexed.
func TestAVersionThatCannotBeUsedIsAProblem(t *testing.T) {
	front := func(fields string) map[string]string {
		return map[string]string{"a.md": "---\nauthor: Ada\n" + fields + "---\nThe lease."}
	}
	for name, c := range map[string]struct {
		files map[string]string
		say   string // empty: it is right
	}{
		"a day":         {front("valid_from: 2026-01-31\nvalid_until: 2026-01-31\nauthority: 2\nsupersedes: [b.md]\n"), ""},
		"a time":        {front("valid_until: 2026-01-31T12:00:00+02:00\nauthority: -1\n"), ""},
		"no date":       {front("valid_from: soon\n"), `metadata valid_from is ignored: "soon" is no date (write 2026-01-31`},
		"no such day":   {front("valid_until: \"2026-02-30\"\n"), `metadata valid_until is ignored: "2026-02-30" is no date`},
		"two dates":     {front("valid_from: [2026-01-01, 2026-02-01]\n"), `"2026-01-01, 2026-02-01" is no date`},
		"no number":     {front("authority: high\nvalid_from: 2026-01-31\n"), `metadata authority is ignored: "high" is no number (write 2)`},
		"of anything":   {front("authority: City of Oslo\n"), ""},
		"no value":      {front("valid_from:\nsupersedes: []\n"), ""},
		"nested":        {front("valid_from: {day: 1}\n"), "front matter valid_from is ignored: it is nested or has more than"},
		"long":          {front("supersedes: " + strings.Repeat("a", 2001) + "\n"), "front matter supersedes is ignored: it is nested"},
		"the other way": {front("valid_from: 2026-02-01\nvalid_until: 2026-01-31\n"), "it never holds"},
		"itself":        {front("supersedes: [b.md, a.md]\n"), "it names the document itself"},
		"beside": {map[string]string{
			"a.md": "The lease.", "a.md.meta.json": `{"valid_from": "31.1.2026"}`}, `valid_from is ignored: "31.1.2026"`},
		"a row": {map[string]string{
			"a.jsonl": `{"id": "1", "text": "The lease.", "valid_until": "never"}`}, `valid_until is ignored: "never"`},
	} {
		r := newRun(t, c.files)
		res := r.night()
		assert.Len(t, r.documents(res), 1, name)
		if c.say == "" {
			assert.Empty(t, res.Problems, name)
		} else if assert.Len(t, res.Problems, 1, name) {
			assert.Equal(t, string(fault.PartsMissing), res.Problems[0].Code, name)
			assert.Contains(t, res.Problems[0].Detail, c.say, name)
			assert.True(t, strings.HasPrefix(res.Problems[0].Object, "a."), name)
		}
		assert.True(t, r.plan().Unchanged, name)
	}
}

func manyFields(count int) (out string) {
	for i := range count {
		out += fmt.Sprintf("\"f%d\": 1,", i)
	}
	return out
}

// Tags of objects are metadata, over those of the document and below those of the file beside it. What the store
// refuses is one problem, and is asked for again until it is given.
func TestTagsOfObjectsAreMetadata(t *testing.T) {
	r := newRun(t, map[string]string{
		"a.md": "---\nauthor: Ada\nyear: 2019\nteam: x\n---\nThe lease ends in May.", "a.md.meta.json": `{"year": 2026}`,
		"b.txt": "The boiler is old.", "c.jsonl": `{"id": "1", "text": "The roof leaks."}`, "d.txt": strings.Repeat("Snow. ", 60_000),
	})
	refused := map[string]bool{"a.md": true, "d.txt": true}
	r.corpus.Tags = func(key string) (map[string]string, error) {
		if refused[key] {
			return nil, fault.StoreDenied.At("read tags of", key).Because(blob.ErrTagsRefused)
		}
		return map[string]string{"team": "legal", "year": "1"}, nil
	}
	own := map[string]string{"author": "Ada", "year": "2026", "team": "x"}
	tags := map[string]string{"team": "legal", "year": "1"}
	metaOf := func(res chunk.Result) (out []map[string]string) {
		for _, key := range []string{"a.md", "b.txt", "c.jsonl#1", "d.txt"} {
			out = append(out, r.documents(res)[key].Meta)
		}
		return out
	}
	assert.Equal(t, []map[string]string{own, nil, nil, nil}, metaOf(r.night()), "not asked for")
	r.parent, r.spec.Documents = nil, &core.Documents{S3Tags: true}
	res := r.night()
	assert.Equal(t, []map[string]string{own, tags, nil, nil}, metaOf(res))
	assert.Empty(t, res.Problems)
	all := stage.Lacking{}
	all.Add(res.Untagged)
	all.Add(res.Untagged)
	assert.Equal(t, int64(4), all.Documents)
	assert.Equal(t, "a.md", all.UntaggedProblem().Object)
	assert.Contains(t, all.UntaggedProblem().Detail, "tags of 4 objects are no metadata yet")
	assert.Contains(t, all.UntaggedProblem().Detail, `("a.md", "d.txt", "a.md", "d.txt")`)
	r.corpus.Reads("d.txt")
	planned := r.plan()
	assert.True(t, planned.Unchanged && planned.Diff.Same == 4 && r.corpus.Reads("d.txt") == 0, "%+v", planned)
	assert.Equal(t, res.Documents.SHA256, r.night().Documents.SHA256, "refused again")
	refused = map[string]bool{"a.md": true}
	assert.Equal(t, []map[string]string{own, tags, nil, tags}, metaOf(r.night()), "one decides for itself alone")
	refused = nil
	assert.Equal(t, []map[string]string{{"author": "Ada", "year": "2026", "team": "legal"}, tags, nil, tags}, metaOf(r.night()))
	assert.True(t, r.plan().Unchanged)
	r.corpus.Tags = func(string) (map[string]string, error) { return map[string]string{"a": strings.Repeat("x", 2001)}, nil }
	r.corpus.Set("b.txt", "The boiler is newer.")
	long := r.all()
	assert.True(t, len(long.Problems) == 3 && r.documents(long)["b.txt"].Meta == nil, "too long: %+v", long)
	code := fault.StoreDenied // of everything, as that of a document
	r.corpus.Tags = func(string) (map[string]string, error) { return nil, code.At("read tags of", "a") }
	r.corpus.Set("b.txt", "The boiler is new.")
	res = r.all()
	assert.True(t, r.documents(res)["b.txt"].Problem == string(code) && res.Untagged.Documents == 0, "%+v", res)
	code = fault.StoreDown
	_, err := r.chunk(t.Context(), 0, r.plan().Units)
	assert.True(t, fault.Is(err, code), "a store that is down is asked again: %v", err)
}
