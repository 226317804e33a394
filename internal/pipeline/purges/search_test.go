package purges

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

const told = "In 1911 Marlene Quastenberg paid the ferryman in opals."

// The search finds a passage in plain objects, in what row files have packed, and in class records; and nothing
// where there is nothing.
func TestTheSearchLooksIntoEverythingThatIsStored(t *testing.T) {
	ctx := t.Context()
	store, classes := blobmemory.New(), recordsmemory.New()
	index := artifact.Index{Store: store, Name: "docs"}
	search := func() []string {
		t.Helper()
		out, err := Search(ctx, index, classes, "0123456789abcdef", marksOf(told, 3), func() {})
		if err != nil {
			t.Fatal(err)
		}
		return out.Found
	}
	put := func(key, content string) {
		t.Helper()
		if _, err := blob.Write(ctx, store, key, []byte(content), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	put("docs/current.json", "{}")
	put("other/segments/1", told) // of another index, which may have the same document
	if found := search(); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	put("docs/segments/1", "before "+told+" behind")
	put("ledger/extract/loose/b4/b4", `{"description":"`+told+`"}`)
	rows, err := artifact.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Discard()
	for range 300 {
		rows.Append("key", []byte(strings.Repeat("The same again. ", 20)))
	}
	rows.Append("last", []byte(told))
	if err := rows.Scratch(ctx, store, "ledger/extract/packs/1"); err != nil {
		t.Fatal(err)
	}
	err = classes.PutRecords(ctx, []records.Record{
		{Key: "01234567:c:docs:1:2", Value: []byte(told)}, {Key: "01234567:c:other:1:2", Value: []byte(told)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := search(); len(found) != 4 {
		t.Errorf("found %q", found)
	}
}
