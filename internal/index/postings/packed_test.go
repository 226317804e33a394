package postings_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
	"github.com/unweaver/unweaver/internal/testkit/postingstest"
)

var update = flag.Bool("update", false, "write the golden files")

// texts have terms that are in one document, in a few, in a block, in many blocks and in all, with names that begin
// alike, and now and then a hundred times in one document.
func texts(documents int) [][]string {
	r := rand.New(rand.NewPCG(6, uint64(documents)))
	zipf := rand.NewZipf(r, 1.2, 3, 3000)
	out := make([][]string, documents)
	for i := range out {
		out[i] = []string{"everywhere", fmt.Sprint("document", i)}
		for range r.IntN(30) {
			term := fmt.Sprintf("%x", zipf.Uint64()*zipf.Uint64()*7919)
			for range 1 + r.IntN(3)*r.IntN(2)*r.IntN(80)/40 {
				out[i] = append(out[i], term)
			}
		}
		if r.IntN(40) == 0 {
			out[i] = append(out[i], slices.Repeat([]string{"often"}, 1+r.IntN(400))...)
		}
		if r.IntN(3) == 0 {
			out[i] = append(out[i], "third", "", "\xff\xff")
		}
	}
	return out
}

// both writes a side as it is written now and as it was before sides were packed.
func both(t *testing.T, documents [][]string) (packed, flat *postings.Side) {
	t.Helper()
	builder := postings.NewBuilder()
	add(t, builder, documents...)
	flat = keep(t, func(writer *mapped.Writer) (postings.Stats, error) {
		return postingstest.WriteFlat(writer, "x_", documents), nil
	})
	return write(t, builder), flat
}

func TestAPackedSideSaysWhatAFlatOneSays(t *testing.T) {
	for _, documents := range []int{0, 1, 2, 16, 17, 127, 128, 129, 130, 257, 3000} {
		packed, flat := both(t, texts(documents))
		if !packed.Fits() || !flat.Fits() || packed.Stats() != flat.Stats() || !slices.Equal(packed.Lengths, flat.Lengths) {
			t.Fatalf("%d documents: %+v, %+v", documents, packed.Stats(), flat.Stats())
		}
		want := map[string]postings.List{}
		maps.Insert(want, flat.Lists())
		var cursor postings.Cursor
		before, terms := "", 0
		for term, list := range packed.Lists() {
			if terms > 0 && term <= before {
				t.Fatalf("%q follows %q", term, before)
			}
			before = term
			terms++
			found, held := packed.Find(term)
			docs, counts := list.All()
			wantDocs, wantCounts := want[term].All()
			if !held || found != list || !slices.Equal(docs, wantDocs) || !slices.Equal(counts, wantCounts) {
				t.Fatalf("%q of %d documents: %v %v, want %v %v", term, documents, docs, counts, wantDocs, wantCounts)
			}
			cursor.Reset(list)
			for _, doc := range []uint32{0, 1, 128, 129, docs[0], docs[len(docs)-1], uint32(documents - 1), uint32(documents)} {
				at, there := slices.BinarySearch(docs, doc)
				if count, held := cursor.Seek(doc); held != there || (there && count != counts[at]) {
					t.Fatalf("%q in %d: %d times, %v", term, doc, count, held)
				}
			}
			for _, other := range []string{term + "\x00", term + "z", term[:len(term)/2], term[:max(0, len(term)-1)] + "!"} {
				if _, there := want[other]; packed.Has(other) != there || flat.Has(other) != there {
					t.Fatalf("%q is in the index: %v, found: %v", other, there, packed.Has(other))
				}
			}
		}
		if terms != len(want) || packed.Has("zzz") || packed.Has("\xff\xff\xff") || (documents == 0 && packed.Has("")) {
			t.Errorf("%d terms, want %d", terms, len(want))
		}
	}
}

func TestAFinderFindsWhatTermsFoundOneByOneAre(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, documents := range []int{0, 1, 17, 3000} {
		packed, flat := both(t, texts(documents))
		terms := []string{"", "zzz", "document", "document1", "\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}
		for term := range packed.Lists() {
			if r.IntN(3) == 0 {
				terms = append(terms, term, term+"a", term[:len(term)/2])
			}
		}
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		for _, some := range [][]string{nil, terms[:1], terms[:5], terms} {
			finder := postings.NewFinder(some)
			lists := finder.In(flat, finder.In(packed, nil)) // sides of any kind, one after another
			for i, term := range some {
				inPacked, _ := packed.Find(term)
				inFlat, _ := flat.Find(term)
				if lists[i] != inPacked || lists[len(some)+i] != inFlat {
					t.Fatalf("%q of %d documents: %v, alone %v", term, documents, lists[i].Len(), inPacked.Len())
				}
			}
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	packed, _ := both(t, texts(3000))
	var terms []string
	for term := range packed.Lists() {
		terms = append(terms, term)
	}
	cursor := new(postings.Cursor)
	sum := 0
	if allocations := testing.AllocsPerRun(3, func() {
		for _, term := range terms {
			list, _ := packed.Find(term)
			cursor.Reset(list)
			for block := range list.Blocks() {
				cursor.Load(block)
				sum += len(cursor.Docs) + len(cursor.Counts())
			}
		}
	}); allocations != 0 || sum == 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// The bytes of a side are those of the stored one: other bytes are another content hash of every segment.
func TestBytesOfThisVersion(t *testing.T) {
	builder := postings.NewBuilder()
	add(t, builder, texts(300)...)
	got, path := bytesOf(t, builder), filepath.Join("testdata", "side.2.segment")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes differ from the %d that were written before", len(got), len(want))
	}
}

// readAll does with a side what readers do.
func readAll(side *postings.Side) {
	cursor := new(postings.Cursor)
	for term, list := range side.Lists() {
		_, _ = side.Find(term)
		_, _ = side.Find(term + "a")
		cursor.Reset(list)
		for block := range list.Blocks() {
			cursor.Load(block)
			for i, doc := range cursor.Docs {
				_ = postings.Weight(cursor.Count(i), side.Lengths[doc], side.Average)
			}
			if list.Bounded() {
				_ = list.Last(block)
			}
			_, _ = list.Largest(block), cursor.Counts()
		}
		_, _ = cursor.Seek(7)
	}
}

// forged writes a forged side and reads it where it fits.
func forged(t *testing.T, whole []byte, stats postings.Stats, random *rand.Rand) (fits bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "side")
	if err := os.WriteFile(path, mappedtest.Forge(whole, random), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := mapped.Open(path, "test", 1)
	if err != nil {
		return false
	}
	defer file.Close()
	side := postings.Open(file, "x_", stats)
	if !side.Fits() {
		return false
	}
	readAll(side)
	return true
}

func TestAForgedSideIsRefusedOrReadWithoutAPanic(t *testing.T) {
	documents := texts(300)
	builder := postings.NewBuilder()
	add(t, builder, documents...)
	packed, _ := both(t, documents)
	whole, random := bytesOf(t, builder), rand.New(rand.NewPCG(9, 9))
	refused := 0
	for range 800 {
		if !forged(t, whole, packed.Stats(), random) {
			refused++
		}
	}
	if refused == 0 || refused == 800 {
		t.Errorf("%d of 800 are refused", refused)
	}
}

func FuzzForgedSide(f *testing.F) {
	whole, err := os.ReadFile(filepath.Join("testdata", "side.2.segment"))
	if err != nil {
		f.Fatal(err)
	}
	for seed := range uint64(8) {
		f.Add(seed, 2*seed)
	}
	terms := uint64(0)
	documents := texts(300)
	for _, document := range documents {
		terms += uint64(len(document))
	}
	stats := postings.Stats{Documents: uint32(len(documents)), Terms: terms}
	f.Fuzz(func(t *testing.T, a, b uint64) { forged(t, whole, stats, rand.New(rand.NewPCG(a, b))) })
}
