package document_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
)

// The type of an object follows from its name; text is read as a stream.
func ExampleParse() {
	const object = "ships/fram.md.gz"
	kind, gzipped, ok := document.TypeOf(object)
	fmt.Println(kind, gzipped, ok)

	source := strings.NewReader("---\ntitle: Fram\nbuilt: 1892\n---\nFram sailed to Antarctica.\n")
	doc, err := document.Parse(source, kind, object, document.DefaultLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(doc.Text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s (%s): %s", doc.Title, doc.Meta["built"], body)
	// Output:
	// markdown true true
	// Fram (1892): Fram sailed to Antarctica.
}

// Each line of JSON Lines is a document. One that cannot be used has an error; the others are read.
func ExampleStreamRows() {
	source := strings.NewReader(`{"id": "a", "title": "Fram", "text": "A ship."}` + "\n" + `{"id": "b", ` + "\n")
	err := document.StreamRows(source, document.JSONL, "ships.jsonl", document.DefaultLimits(), func(row document.Row) error {
		if row.Err != nil {
			fmt.Println("line", row.Line, "cannot be used")
			return nil
		}
		title, text, _, err := document.DecodeRecord(row.Canonical, document.DefaultLimits())
		fmt.Println(row.ID, title, text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// a Fram A ship.
	// line 2 cannot be used
}
