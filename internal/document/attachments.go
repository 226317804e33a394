package document

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Attachment is a file within a mail or a PDF.
type Attachment struct {
	Name    string      `json:"name"` // within its object; of several with one name the second is NAME#2
	Kind    Kind        `json:"kind"`
	Size    int64       `json:"size"`
	Version core.Digest `json:"version"` // of its bytes
}

// HasAttachments reports whether objects of the type may have files attached that are read as documents.
func (k Kind) HasAttachments() bool { return k == EML || k == PDF }

// MaxAttached is how many attachments of an object are named and read.
const MaxAttached = 100

// Attachments collects what is attached to an object while that is read.
type Attachments struct {
	Object string
	Limits Limits
	Names  []string // as a person sees them
	Left   []string // sentences about what is not read
	More   int      // attachments above MaxAttached
	Found  []Attachment
	taken  map[string]bool
	Part   []byte // content of the one that is asked for
}

// Add takes an attachment. One without a name is known by its type; one without content is none that is read.
func (a *Attachments) Add(name, mediaType string, content func() []byte) {
	if name = CutTitle(strings.ToValidUTF8(name, ""), MaxHeadingText); name == "" {
		name = CutTitle(mediaType, MaxHeadingText)
	}
	if len(a.Names) == MaxAttached {
		a.More++
		return
	}
	if a.Names = append(a.Names, name); !a.Limits.Attached || content == nil {
		return
	}
	one := Attachment{Name: a.pickName(name), Kind: attachedKind(name, mediaType)}
	if one.Kind == "" {
		a.Left = append(a.Left, name+" is of a type that is not read")
		return
	}
	raw := content()
	if len(raw) == 0 {
		a.Left = append(a.Left, name+" is empty, damaged or too large")
		return
	}
	one.Size, one.Version = int64(len(raw)), sha256.Sum256(raw)
	if a.Found = append(a.Found, one); one.Name == a.Limits.Part.Name {
		a.Part = raw
	}
}

// pickName returns the name of an attachment that no other of the object has.
func (a *Attachments) pickName(name string) string {
	if a.taken == nil {
		a.taken = map[string]bool{}
	}
	key := name
	for n := 2; a.taken[key]; n++ {
		key = name + "#" + strconv.Itoa(n)
	}
	a.taken[key] = true
	return key
}

// ListMissing says what of the attachments is neither read nor named.
func (a *Attachments) ListMissing() []string {
	var all []string
	if len(a.Left) > 0 {
		all = append(all, "attachments: "+strings.Join(a.Left, ", "))
	}
	if a.More > 0 {
		all = append(all, fmt.Sprintf("%d attachments behind the first %d are left out", a.More, MaxAttached))
	}
	return all
}

// kindsOfMedia are types of files by what mail calls them, where their names do not say it.
var kindsOfMedia = map[string]Kind{
	"application/pdf": PDF, "text/plain": Text, "text/csv": Text, "text/markdown": Markdown, "text/html": HTML,
	"application/json": JSON, "application/epub+zip": EPUB,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   DOCX,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": PPTX,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         XLSX,
}

// attachedKind returns the type of an attachment; empty: it is not read. Rows are no documents here: they are a text.
func attachedKind(name, mediaType string) Kind {
	kind, _, known := TypeOf(name)
	if !known {
		kind = kindsOfMedia[mediaType]
	}
	if kind.HasRows() {
		return Text
	}
	return kind
}
