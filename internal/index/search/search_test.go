package search_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/index/search"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

// old are segments that an earlier version of this program wrote.
const old = "../../stage/segment/testdata"

// sample is what they were written from: 6 documents, 9 chunks, 12 classes.
var sample = search.Expect{Analyser: text.Analyser, Documents: 6, Chunks: 9, Classes: 12}

func TestASegmentOfAnEarlierVersionIsRead(t *testing.T) {
	for _, name := range []string{"search.segment", "search.2.segment"} {
		t.Run(name, func(t *testing.T) { earlier(t, name) })
	}
}

func earlier(t *testing.T, name string) {
	file, err := search.Open(filepath.Join(old, name), sample)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := live.Open(filepath.Join(old, "live.segment"))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	oslo := uint32(table.ClassPlace(retrievetest.ClassID("Oslo")))
	if chunks := file.Graph.ChunksOf(oslo); len(chunks) != 3 {
		t.Errorf("Oslo is in chunks %v", chunks)
	}
	capital, _ := file.Chunks.Find("capital")
	if docs, counts := capital.All(); !slices.Equal(docs, []uint32{2}) || !slices.Equal(counts, []uint8{1}) {
		t.Errorf("capital is in %v", docs)
	}
	for place, rank := range file.Rank {
		if file.Place[rank] != uint32(place) {
			t.Errorf("class %d has rank %d, where class %d is", place, rank, file.Place[rank])
		}
	}
	if file.Titles != nil {
		t.Errorf("titles %v come from a file without any", file.Titles)
	}
	meta, modified := file.Document(1)
	if meta["kind"] != "city" || !modified.Equal(time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("document 1: %v %s", meta, modified)
	}
	if meta, _ := file.Document(5); meta != nil {
		t.Errorf("a document without metadata has %v", meta)
	}
}

func TestTitlesNameClasses(t *testing.T) {
	file, err := search.Open(filepath.Join(old, "search-titled.segment"), sample)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i, document := range retrievetest.Sample() {
		for _, name := range []string{"Bergen", "Oslo", "Fram", "Norway"} {
			if got := file.Titles[i].Names(retrievetest.ClassID(name)); got != (document.Title == name) {
				t.Errorf("the title of %s names %s: %v", document.Key, name, got)
			}
		}
	}
}

// rewrite copies the old segment with another version, or with another content of a section.
func rewrite(t *testing.T, version int, section string, change func([]byte) []byte) string {
	t.Helper()
	name := "search.segment"
	if version == search.Version {
		name = "search.2.segment"
	}
	from, err := mapped.Open(filepath.Join(old, name), search.Kind, 1, search.Version)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var out bytes.Buffer
	writer := mapped.NewWriter(&out, search.Kind, version, nil)
	for _, name := range from.Sections() {
		content := bytes.Clone(from.Bytes(name))
		if name == section {
			content = change(content)
		}
		writer.Section(name)
		if _, err := writer.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func shorter(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

func TestASegmentThatDoesNotFitIsRefused(t *testing.T) {
	analyser := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(text.Analyser), []byte("en/1")) }
	whole := filepath.Join(old, "search.segment")
	more := func(change func(*search.Expect)) search.Expect {
		expect := sample
		change(&expect)
		return expect
	}
	for name, c := range map[string]struct {
		path   string
		expect search.Expect
		code   fault.Code
		say    string
	}{
		"another version":       {rewrite(t, 9, "", nil), sample, fault.FormatUnknown, "search version 9, this program reads version 2 or 1"},
		"another analyser":      {rewrite(t, 1, "stats", analyser), sample, fault.FormatUnknown, "analyser en/1"},
		"no statistics":         {rewrite(t, 1, "stats", shorter(5)), sample, fault.SegmentDamage, "JSON"},
		"another corpus":        {whole, more(func(e *search.Expect) { e.Chunks = 8 }), fault.SegmentDamage, "fit"},
		"other classes":         {whole, more(func(e *search.Expect) { e.Classes = 11 }), fault.SegmentDamage, "fit"},
		"other documents":       {whole, more(func(e *search.Expect) { e.Documents = 7 }), fault.SegmentDamage, "fit"},
		"an edge is missing":    {rewrite(t, 1, "class_to", shorter(4)), sample, fault.SegmentDamage, "fit"},
		"a posting is missing":  {rewrite(t, 1, "k_doc", shorter(4)), sample, fault.SegmentDamage, "fit"},
		"a count is missing":    {rewrite(t, 1, "c_tf", shorter(1)), sample, fault.SegmentDamage, "fit"},
		"a maximum is missing":  {rewrite(t, 1, "k_max", shorter(4)), sample, fault.SegmentDamage, "fit"},
		"a term is missing":     {rewrite(t, 2, "k_dict", shorter(1)), sample, fault.SegmentDamage, "fit"},
		"a group is missing":    {rewrite(t, 2, "k_dict_at", shorter(24)), sample, fault.SegmentDamage, "fit"},
		"a list is missing":     {rewrite(t, 2, "c_lists", shorter(1)), sample, fault.SegmentDamage, "fit"},
		"nothing is behind it":  {rewrite(t, 2, "c_lists", shorter(64)), sample, fault.SegmentDamage, "fit"},
		"a length is missing":   {rewrite(t, 1, "k_len", shorter(4)), sample, fault.SegmentDamage, "fit"},
		"a rank is missing":     {rewrite(t, 1, "rank", shorter(4)), sample, fault.SegmentDamage, "fit"},
		"a time is missing":     {rewrite(t, 1, "modified", shorter(8)), sample, fault.SegmentDamage, "fit"},
		"it is a live segment":  {filepath.Join(old, "live.segment"), sample, fault.SegmentDamage, "kind live"},
		"there is no such file": {filepath.Join(old, "nothing"), sample, fault.NotFound, "nothing"},
	} {
		file, err := search.Open(c.path, c.expect)
		if !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if err == nil {
			file.Close()
		}
	}
}

func TestAStoredSegmentTellsItsAnalyserWithoutADownload(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, raw []byte) {
		if _, err := blob.Write(t.Context(), store, key, raw, blob.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(old, "search.segment"))
	if err != nil {
		t.Fatal(err)
	}
	put("whole", raw)
	meta, err := search.ReadMeta(t.Context(), store, "whole")
	if err != nil || meta.Analyser != "en/2" || meta.Language != "en" || meta.Chunks.Documents != 9 {
		t.Errorf("%+v %v", meta, err)
	}
	for at := range raw { // a flipped byte is seen, or is outside of what was read
		if at%61 != 0 {
			continue
		}
		flipped := bytes.Clone(raw)
		flipped[at] ^= 1
		put("flipped", flipped)
		got, err := search.ReadMeta(t.Context(), store, "flipped")
		if a, _ := json.Marshal(got); err == nil && string(a) != mustJSON(t, meta) {
			t.Fatalf("byte %d flipped gives %+v without an error", at, got)
		}
	}
	for name, content := range map[string][]byte{"short": raw[:20], "cut": raw[:len(raw)-1]} {
		put(name, content)
		if _, err := search.ReadMeta(t.Context(), store, name); !fault.Is(err, fault.SegmentDamage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer, err := os.ReadFile(rewrite(t, 9, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	put("newer", newer)
	if _, err := search.ReadMeta(t.Context(), store, "newer"); !fault.Is(err, fault.FormatUnknown) {
		t.Errorf("another version: %v", err)
	}
	if _, err := search.ReadMeta(t.Context(), store, "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("no object: %v", err)
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
