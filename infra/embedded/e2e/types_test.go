package e2e

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
)

func TestEveryFileTypeIsReadAndWhatCannotBeIsNamed(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write([]byte("The gzipped Zephyr note speaks of Zanzibar."))
	_ = z.Close()
	dir := write(t, map[string]string{
		"a.txt": "Aldous wrote about the Azores.", "b.md": "# Borneo notes\n\nThe Bornean orangutan lives there.",
		"c.html":  "<html><head><title>Cairo</title></head><body><p>Cairo lies on the Nile.</p><table><tr><td>A</td><td>B</td></tr></table></body></html>",
		"d.json":  `{"title":"Dakar","text":"Dakar is a port in Senegal.","year":1857}`,
		"e.jsonl": "{\"id\":\"1\",\"text\":\"Essen is in Germany.\"}\n\n{\"id\":\"2\",\"text\":\"Evora is in Portugal.\",\"title\":\"Evora\"}\nnot json\n",
		"f.csv":   "id,title,text\n7,Fez,Fez is a city in Morocco.\n", "g.txt.gz": gz.String(), "h.docx": docx(t,
			"Hobart is the capital of Tasmania."), "i.latin1.txt": "Der Fl\xfcgel steht in M\xfcnchen und Z\xfcrich.",
		"j.utf16.txt": "\xff\xfeJ\x00a\x00p\x00a\x00n\x00 \x00h\x00a\x00s\x00 \x00K\x00y\x00o\x00t\x00o\x00.\x00",
		"k.exe":       "MZ", "l.txt": "\x00\x01\x02\x03 binary \x00\x00", "empty.txt": "  \n", "m.pdf": "%PDF-1.4 broken",
		"odd#name.txt": "Oslo is the capital of Norway.", ".hidden/secret.txt": "never read",
	})
	st := index(t, shared.Control, spec(t, "types", dir, nil, "indexes.types.failures.share=1"))
	if st.Status != core.StatusErrors {
		t.Fatalf("%s %s %s", st.Status, st.Reason, st.Detail)
	}
	for object, code := range map[string]string{
		"l.txt": "binary_content", "empty.txt": "empty_document", "m.pdf": "unreadable_document",
		"e.jsonl line 4": "unreadable_document",
	} {
		if !contains(st.Problems, code, object) {
			t.Errorf("%s is not reported as %s: %v", object, code, st.Problems)
		}
	}
	if st.LeftOut.OtherTypes != 1 || st.LeftOut.Extensions[".exe"] != 1 {
		t.Errorf("left out: %+v", st.LeftOut)
	}
	for q, doc := range map[string]string{
		"Aldous Azores": "a.txt", "Bornean orangutan": "b.md", "Cairo Nile": "c.html", "Dakar port Senegal": "d.json",
		"Essen Germany": "e.jsonl#1", "Evora Portugal": "e.jsonl#2", "Fez Morocco": "f.csv#7",
		"Zanzibar Zephyr": "g.txt.gz", "Hobart Tasmania": "h.docx", "Flügel München Zürich": "i.latin1.txt",
		"Kyoto Japan": "j.utf16.txt", "Oslo Norway": "odd%23name.txt",
	} {
		if cs := chunksOf(ask(t, shared.HTTP, "types", q, map[string]any{"top_chunks": 1, "method": "vector"})); len(
			cs,
		) != 1 ||
			cs[0]["document"] != doc {
			t.Errorf("%q gives %v, want %s", q, cs, doc)
		}
	}
}

func docx(t *testing.T, s string) string {
	t.Helper()
	var buffer bytes.Buffer
	writer := zip.NewWriter(&buffer)
	w := must(writer.Create("word/document.xml"))(t)
	_, _ = fmt.Fprintf(
		w,
		`<?xml version="1.0"?><w:document xmlns:w="x"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body></w:document>`,
		s,
	)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}
