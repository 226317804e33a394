package live_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// old is a segment that an earlier version of this program wrote from retrievetest.Sample.
const old = "../../stage/segment/testdata/live.segment"

func open(t *testing.T, path string) *live.File {
	t.Helper()
	table, err := live.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	return table
}

func TestEveryChunkOfAnOldSegmentIsFoundByIDAndByNumber(t *testing.T) {
	table := open(t, old)
	number := 0
	for d, document := range retrievetest.Sample() {
		if table.Key(d) != document.Key || table.Document(document.Key) != d {
			t.Errorf("document %d is %q, %q is at %d", d, table.Key(d), document.Key, table.Document(document.Key))
		}
		row := table.Documents[d]
		if int(row.Chunks) != number || int(row.Count) != len(document.Chunks) {
			t.Errorf("%s has %d chunks from %d", document.Key, row.Count, row.Chunks)
		}
		for n := range document.Chunks {
			chunk := table.Chunk(retrievetest.ChunkID(document, n))
			if chunk == nil || int(chunk.Number) != number || int(chunk.Document) != d || int(chunk.Ordinal) != n {
				t.Fatalf("chunk %d of %s: %+v", n, document.Key, chunk)
			}
			if table.ByNumber(number) != chunk || &table.Chunks[table.Place(chunk)] != chunk {
				t.Errorf("chunk %d is another by number or by place", number)
			}
			number++
		}
	}
	for _, n := range []int{-1, number} {
		if table.ByNumber(n) != nil {
			t.Errorf("there is a chunk %d", n)
		}
	}
}

func TestWhatIsNotLiveIsNotFound(t *testing.T) {
	table := open(t, old)
	for _, id := range []core.ID{{}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		if table.Chunk(id) != nil || table.Class(id) != nil || table.ClassPlace(id) != -1 {
			t.Errorf("%s is found", id)
		}
	}
	near := retrievetest.ChunkID(retrievetest.Sample()[0], 0)
	near[15] ^= 1 // the same first eight bytes, which the search goes by
	if table.Chunk(near) != nil {
		t.Error("a chunk is found by half of its id")
	}
	for key, want := range map[string]int{"": -1, "cities": -1, "zzz": -1} {
		if got := table.Document(key); got != want {
			t.Errorf("document %q is at %d", key, got)
		}
	}
	if from := table.DocumentFrom("people/"); from != 3 || table.DocumentFrom("zzz") != 6 {
		t.Errorf("people begin at %d", from)
	}
}

func TestNamesAreInOrderAndLeadToTheirClasses(t *testing.T) {
	table := open(t, old)
	if table.Names() != len(table.Classes) {
		t.Fatalf("%d names of %d classes", table.Names(), len(table.Classes))
	}
	var names []string
	for i := range table.Names() {
		names = append(names, table.Name(i))
		if class := table.ByName(i); int(class.Name) != i {
			t.Errorf("name %d leads to a class of name %d", i, class.Name)
		}
	}
	if !sort.StringsAreSorted(names) {
		t.Errorf("names: %v", names)
	}
	oslo := table.Class(retrievetest.ClassID("Oslo"))
	if at := table.NamedFrom("os"); table.ByName(at) != oslo || oslo.Chunks != 3 {
		t.Errorf("os leads to %q, Oslo has %d chunks", table.Name(at), oslo.Chunks)
	}
}

func TestAnotherVersionAndAFlippedByteAreRefused(t *testing.T) {
	raw, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "segment")
	for at := 0; at < len(raw); at += 97 {
		flipped := bytes.Clone(raw)
		flipped[at] ^= 0x10
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sameSections(path); err != nil {
			t.Errorf("byte %d of %d flipped: %v", at, len(raw), err)
		}
	}
	var newer bytes.Buffer
	if err := mapped.NewWriter(&newer, live.Kind, live.Version+1, nil).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, newer.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := live.Open(path); !fault.Is(err, fault.FormatUnknown) {
		t.Errorf("version %d: %v", live.Version+1, err)
	}
}

// sameSections tells of a file that is opened though its sections are not those of the old one. Bytes between sections
// may change: nobody reads them.
func sameSections(path string) error {
	got, err := mapped.Open(path, live.Kind, live.Version)
	if err != nil {
		return nil
	}
	defer got.Close()
	want, err := mapped.Open(old, live.Kind, live.Version)
	if err != nil {
		return err
	}
	defer want.Close()
	for _, name := range want.Sections() {
		if !bytes.Equal(got.Bytes(name), want.Bytes(name)) {
			return fmt.Errorf("section %s has other content, and nothing was said", name)
		}
	}
	return nil
}
