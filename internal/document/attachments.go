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

// maxAttached is how many attachments of an object are named and read.
const maxAttached = 100

// attached collects what is attached to an object while that is read.
type attached struct {
	object string
	limits Limits
	names  []string // as a person sees them
	left   []string // sentences about what is not read
	more   int      // attachments above maxAttached
	found  []Attachment
	taken  map[string]bool
	part   []byte // content of the one that is asked for
}

// add takes an attachment. One without a name is known by its type; one without content is none that is read.
func (a *attached) add(name, mediaType string, content func() []byte) {
	if name = cutTitle(strings.ToValidUTF8(name, ""), maxHeadingText); name == "" {
		name = cutTitle(mediaType, maxHeadingText)
	}
	if len(a.names) == maxAttached {
		a.more++
		return
	}
	if a.names = append(a.names, name); !a.limits.Attached || content == nil {
		return
	}
	one := Attachment{Name: a.pickName(name), Kind: attachedKind(name, mediaType)}
	if one.Kind == "" {
		a.left = append(a.left, name+" is of a type that is not read")
		return
	}
	raw := content()
	if len(raw) == 0 {
		a.left = append(a.left, name+" is empty, damaged or too large")
		return
	}
	one.Size, one.Version = int64(len(raw)), sha256.Sum256(raw)
	if a.found = append(a.found, one); one.Name == a.limits.Part.Name {
		a.part = raw
	}
}

// pickName returns the name of an attachment that no other of the object has.
func (a *attached) pickName(name string) string {
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

// listMissing says what of the attachments is neither read nor named.
func (a *attached) listMissing() []string {
	var all []string
	if len(a.left) > 0 {
		all = append(all, "attachments: "+strings.Join(a.left, ", "))
	}
	if a.more > 0 {
		all = append(all, fmt.Sprintf("%d attachments behind the first %d are left out", a.more, maxAttached))
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
