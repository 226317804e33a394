package desk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Bounds of keys, in bytes: of S3, and of the names in a folder.
const (
	longestKey  = 1024
	longestName = 255
)

// Document is what was written to a corpus.
type Document struct {
	SHA256  string // of its content
	Bytes   int64
	Created bool // nothing had the key before
}

// Allowed reports whether who asks may change an index.
type Allowed func(index string) bool

// PutDocument writes a document into the corpus of an index, whole or not at all. size is that of the body, or -1
// where it is not known. No build is started.
func (d *Desk) PutDocument(
	ctx context.Context, index, key string, body io.Reader, size int64, allowed Allowed,
) (out Document, err error) {
	corpus, object, err := d.findObject(ctx, index, key, allowed)
	if err != nil {
		return out, err
	}
	_, err = corpus.Stat(ctx, object)
	if out.Created = fault.Is(err, fault.NotFound); err != nil && !out.Created {
		return out, asKeyFault(err)
	}
	sum := sha256.New()
	info, err := corpus.Put(ctx, object, io.TeeReader(body, sum), size, blob.Cond{})
	out.SHA256, out.Bytes = hex.EncodeToString(sum.Sum(nil)), info.Size
	return out, asKeyFault(err)
}

// DeleteDocument deletes a document from the corpus of an index; an absent one is fault.NotFound. The index has it
// until the next build.
func (d *Desk) DeleteDocument(ctx context.Context, index, key string, allowed Allowed) error {
	corpus, object, err := d.findObject(ctx, index, key, allowed)
	if err != nil {
		return err
	}
	if _, err := corpus.Stat(ctx, object); fault.Is(err, fault.NotFound) {
		return fault.NotFound.At("find document", key).Because("the corpus has no such object").
			Advise("list what is indexed: /v1/indexes/" + index + "/documents")
	} else if err != nil {
		return asKeyFault(err)
	}
	return asKeyFault(corpus.Delete(ctx, object))
}

// findObject returns the corpus of an index, and the object in it that has the document of a key. What builds leave
// out is refused: it would not be indexed, and may be another program's. So is the corpus of a branch's base to who may
// not change the base, and any to an index that is a read-only copy.
func (d *Desk) findObject(
	ctx context.Context, index, key string, allowed Allowed,
) (blob.Store, string, error) {
	object, err := objectOf(key)
	if err != nil {
		return nil, "", err
	}
	if err := run.RefusePulled(ctx, artifact.Index{Store: d.Artifacts, Name: index}); err != nil {
		return nil, "", err
	}
	found, err := d.readSettings(ctx, index, nil)
	if err != nil {
		return nil, "", err
	}
	if found.base != "" && !allowed(found.base) {
		return nil, "", fault.Forbidden.At("change document", key).
			Because("the index is a branch, and its corpus may be that of its base").
			Advise("use a key that has the base too; or set indexes." + index + ".corpus in the configuration of this server")
	}
	if plan.LeavesOut(found.spec, object) {
		return nil, "", newKeyFault("builds of the index leave it out: it is hidden, in a folder of packages, or not among " +
			"what include and exclude choose")
	}
	corpus, err := d.Corpora.OpenCorpus(ctx, found.spec.Corpus)
	return corpus, object, err
}

// objectOf returns the object of a document's key.
func objectOf(key string) (string, error) {
	object := core.ObjectOf(key)
	switch {
	case strings.Contains(key, "#"):
		return "", newKeyFault("it names a row: change the object that has the row")
	case core.ObjectKey(object) != key:
		return "", newKeyFault("a key has % as %25 and # as %23, before it is escaped for the address")
	case !utf8.ValidString(key) || strings.ContainsFunc(key, isControl):
		return "", newKeyFault("it holds what is no UTF-8, or control characters")
	case len(object) > longestKey:
		return "", newKeyFault("it is longer than 1024 bytes")
	}
	for part := range strings.SplitSeq(object, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "", newKeyFault("a part between its slashes is empty, . or ..")
		case len(part) > longestName:
			return "", newKeyFault("a part between its slashes is longer than 255 bytes")
		}
	}
	return object, blob.CheckKey(object)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func newKeyFault(why any) error {
	return fault.InvalidParam.At("change document", "key").Because(why).Advise("choose another key")
}

// asKeyFault names the parameter that a store refused.
func asKeyFault(err error) error {
	if fault.Is(err, fault.InvalidParam) || fault.Is(err, fault.NotFollowed) {
		return newKeyFault(fault.As(err).Err)
	}
	return err
}
