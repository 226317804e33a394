package plan

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// firstReading is the number of what was read of an object at first, mostly all there is.
const firstReading = 1

// rowReading is one try to read the rows of an object. What is wrong with rows is reported only when the try counts.
type rowReading struct {
	*listing
	number  byte
	object  string
	listed  int64
	refused []refusal
}

type refusal struct {
	code          fault.Code
	where, detail string
}

// maxRefused of an object are remembered; what follows is reported at once, so that memory stays bounded.
const maxRefused = 10_000

// mostDetail is how long what is remembered of one may be, in bytes.
const mostDetail = 2 << 10

// readAll reads the object to its end. An object that was written to meanwhile is fault.Precondition, whatever reading
// it led to.
func (r *rowReading) readAll(ctx context.Context, row rows.Plan, kind document.Kind, seen blob.Info) error {
	body, err := stage.Open(ctx, r.Corpus, seen)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	err = r.parseRows(ctx, row, kind, body)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, torn := body.Digest(r.reportAlive); fault.Is(torn, fault.Precondition) {
		return torn
	}
	return err
}

func (r *rowReading) parseRows(ctx context.Context, row rows.Plan, kind document.Kind, body io.Reader) error {
	text, charset, err := r.decodeBody(row, kind, body)
	if err != nil {
		return err
	}
	unsure := kind == document.CSV && document.HasShifts(charset)
	return document.StreamRows(text, kind, row.Object, r.Limits, func(read document.Row) error {
		if read.Err != nil {
			r.refuseRow(r.formatPlace(row.Object, read.Line), read.Err)
			return ctx.Err()
		}
		one := row
		if field := r.Spec.ReadAs().Labels.Field; field != "" && (unsure || read.LacksColumn(field)) {
			read.Canonical = blankField(read.Canonical, field)
		}
		if kind == document.JSON {
			one.Kind = string(document.JSONL) // from here on a record is a record
		}
		one.Line, one.Record, one.Size = read.Line, read.Canonical, int64(len(read.Canonical))
		one.Version = sha256.Sum256(read.Canonical)
		r.listed++
		r.addListed(core.RowKey(row.Object, read.ID), r.number, one)
		return ctx.Err()
	})
}

// blankField adds a field without a value to a record, which has then no value of it that can be used.
func blankField(record []byte, field string) []byte {
	out := append(bytes.TrimSuffix(record, []byte("}")), ',')
	out, _ = jsontext.AppendQuote(out, field) // what is no UTF-8 is replaced
	return append(out, `:""}`...)
}

// decodeBody returns the text of an object, and of a table the encoding that is configured or was guessed.
func (p *planner) decodeBody(row rows.Plan, kind document.Kind, body io.Reader) (io.Reader, string, error) {
	plain, err := document.Gunzip(body, row.Gzip, row.Object, p.Limits)
	if err != nil {
		return nil, "", err
	}
	charset := stage.EncodingOf(p.Spec, row.Object)
	plain = document.Transcode(plain, kind, charset)
	if kind == document.CSV {
		text, guess, err := document.DecodeTable(plain, row.Object, p.Spec.ReadAs().Labels.Field != "")
		return text, cmp.Or(charset, guess), err
	}
	text, err := document.Decode(plain, row.Object)
	return text, "", err
}

// formatPlace names a row of an object: its line, or the number of its record in a .json.
func (p *planner) formatPlace(object string, line int) string {
	return object + " " + p.countedIn(object, line)
}

func (p *planner) countedIn(object string, line int) string {
	if kind, _, _ := stage.TypeOf(p.Spec, object); kind == document.JSON {
		return fmt.Sprintf("record %d", line)
	}
	return fmt.Sprintf("line %d", line)
}

func (r *rowReading) refuseRow(where string, err error) {
	if len(r.refused) == maxRefused {
		r.reportRefused()
	}
	detail := err.Error()
	if len(detail) > mostDetail { // what it quotes of the row
		detail = strings.ToValidUTF8(detail[:mostDetail], "")
	}
	r.refused = append(r.refused, refusal{fault.CodeOf(err), where, detail})
}

// reportRefused enters the rows that cannot be used into the result.
func (r *rowReading) reportRefused() {
	for _, row := range r.refused {
		r.refuseObject(r.object, row.code, row.where, row.detail)
	}
	r.refused = nil
}

// isText reports whether an object of no known type holds text. One that cannot be read counts as one that does not.
func (p *planner) isText(ctx context.Context, row rows.Plan) (bool, error) {
	body, err := stage.Open(ctx, p.Corpus, infoOf(row))
	if code, ofObject := blameError(err); ofObject {
		return code == fault.DocumentChanged, nil // hashVersion reads it until it is at rest
	}
	if err != nil {
		return false, err
	}
	text := document.IsText(body, row.Gzip)
	_ = body.Close() // only its beginning counts
	return text, ctx.Err()
}

// canHashLater says whether chunk may hash what it reads: nothing is compared with a generation before, and a reading
// that mixes two versions, which only another one shows, cannot be. So a first build reads its corpus once.
func (p *planner) canHashLater(row rows.Plan) bool {
	return p.Parent == nil && row.ETag != "" && blob.IsVersioned(p.Corpus)
}

// reportAlive says that an object of many bytes is read on.
func (p *planner) reportAlive(int64) {
	if p.OnBytes != nil {
		p.OnBytes()
	}
}

// hashVersion reads and hashes a file whose version is not known.
func (p *planner) hashVersion(ctx context.Context, doc planned) (planned, error) {
	if doc.kept || doc.again || doc.lost != "" || doc.bad != nil || doc.row.IsNested() || !doc.row.Version.IsZero() {
		return doc, nil
	}
	if doc.row.Archived == "" {
		if _, _, known := stage.TypeOf(p.Spec, doc.row.Object); !known && !doc.known {
			if text, err := p.isText(ctx, doc.row); !text {
				doc.other = true
				return doc, err
			}
		}
		if !doc.row.Gzip {
			doc.bad = p.Limits.CheckSize(document.Kind(doc.row.Kind), doc.row.Object, doc.row.Size)
		}
		if doc.bad != nil || p.canHashLater(doc.row) {
			return doc, nil
		}
	}
	return p.digestFile(ctx, doc, func(io.Reader) error { return nil })
}

// digestFile reads and hashes a file that another reader sees first.
func (p *planner) digestFile(ctx context.Context, doc planned, see func(io.Reader) error) (planned, error) {
	if doc.row.Archived != "" {
		doc.bad = p.archivedFault(doc.row)
		return doc, nil
	}
	err := stage.ReadSteady(ctx, p.Corpus, infoOf(doc.row), func(seen blob.Info) error {
		doc.row.ETag, doc.row.Size, doc.row.Modified = seen.ETag, seen.Size, seen.Modified
		body, err := stage.Open(ctx, p.Corpus, seen)
		if err != nil {
			return err
		}
		cause := see(body)
		doc.row.Version, err = body.Digest(p.reportAlive)
		if err != nil && fault.As(err) == nil { // the store opened it, so what broke is this object
			err = fault.Unreadable.At("read", doc.row.Object).Because(err)
		}
		if err == nil {
			err = cause
		}
		return errors.Join(err, body.Close())
	})
	if err == nil {
		return doc, nil
	}
	if ctx.Err() != nil {
		return doc, ctx.Err()
	}
	code, ofObject := blameError(err)
	if !ofObject {
		return doc, err
	}
	doc.bad = code.At("read", doc.row.Object).Because(err)
	return doc, nil
}
