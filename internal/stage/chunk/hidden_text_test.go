package chunk_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/core"
)

// What a document hides is read where the index says so, and counted where it does not.
func TestWhatIsHiddenIsReadWhereTheIndexSaysSo(t *testing.T) {
	r := newRun(t, map[string]string{"a.docx": zipped(t, map[string]string{"word/document.xml": "<d><p><r><t>Shown.</t></r>" +
		"<r><rPr><vanish/></rPr><t> Hidden.</t></r></p></d>"})})
	for hidden, want := range map[string]string{"": "Shown.", "include": "Shown. Hidden."} {
		r.spec.Documents = &core.Documents{Hidden: hidden}
		res := r.all()
		read := r.documents(res)["a.docx"]
		if text := r.text(res, "a.docx", read, 0, -1); text != want || (read.Missing == "") != (hidden == "include") {
			t.Errorf("%q: %q, missing %q", hidden, text, read.Missing)
		}
	}
}
