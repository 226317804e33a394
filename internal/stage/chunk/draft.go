package chunk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// draft is a document as it is read: nothing of it is written before it is known to be whole and of one version.
type draft struct {
	plan    rows.Plan      // as plan has it, or, where the object changed since, as it was read
	row     rows.Document  // title, metadata; what is served
	cuts    extsort.Sorter // cuttings by number
	count   uint64         // of cuttings
	chunks  int            // of cuttings with text
	places  document.Places
	headers []repeatedHeader // that places do not count
	former  *rows.Document   // whose rectangles are kept with its text; nil: it is no former document
	found   core.Digest      // of an attachment: its version, where it was read

	transcribed string // pages, as the metadata lists them
	untagged    bool   // the tags of the object are refused
}

// draftBytes of a document's cuttings wait in memory; those of a larger one on disk.
const draftBytes = 8 << 20

func (d *draft) reset() {
	d.cuts.Close()
	*d = draft{plan: d.plan, cuts: extsort.Sorter{Run: draftBytes}}
}

func (d *draft) addCut(c cutting) {
	var enc rowfile.Enc
	enc.S(c.piece)
	enc.S(c.text)
	enc.U(uint64(c.start))
	enc.U(uint64(c.tokens))
	enc.U(uint64(c.header))
	d.cuts.Add(binary.BigEndian.AppendUint64(nil, d.count), enc.B)
	d.count++
	if c.text != "" {
		d.chunks++
	}
}

func decodeCutting(raw []byte) (cutting, error) {
	dec := rowfile.Dec{B: raw}
	c := cutting{piece: dec.S(), text: dec.S(), start: int(dec.U()), tokens: int(dec.U()), header: int(dec.U())}
	return c, dec.End()
}

// readDocument opens, parses and cuts one document.
func (b *builder) readDocument(ctx context.Context, key string, d *draft) error {
	if d.plan.Line == 0 {
		begun := time.Now()
		err := b.readSteadily(ctx, d)
		if fault.Is(err, fault.Quarantined) && time.Since(begun) < rereadWithin && ctx.Err() == nil {
			err = b.readSteadily(document.WithRetry(ctx), d)
		}
		if err == nil {
			err = b.addBeside(ctx, key, d)
		}
		d.markTranscribed()
		d.addMissing(core.CheckValidity(key, d.row.Meta))
		return err
	}
	d.reset()
	title, text, meta, err := document.DecodeRecord(d.plan.Record, b.Limits)
	if err != nil {
		return fault.Unreadable.At("read row", key).Because(err)
	}
	err = b.cutDocument(ctx, key, document.Doc{Title: title, Meta: meta, Text: strings.NewReader(text)}, held{}, d)
	b.hideUnread(d, meta, d.plan.Record)
	if err == nil && b.Spec.ReadAs().Labels.Field != "" {
		err = b.addBeside(ctx, key, d)
	}
	d.addMissing(core.CheckValidity(key, meta))
	return err
}

// markTranscribed lists the transcribed pages in the metadata of a document whose pages a model was asked for. Neither
// its own metadata nor the file beside it can do so.
func (d *draft) markTranscribed() {
	if len(d.row.Transcribed) == 0 {
		return
	}
	if d.row.Meta == nil {
		d.row.Meta = map[string]string{}
	}
	if d.row.Meta[core.MetaTranscribed] = d.transcribed; d.transcribed == "" {
		delete(d.row.Meta, core.MetaTranscribed)
	}
}

// addMissing adds what a document lacks, where that is anything.
func (d *draft) addMissing(what string) { d.row.Missing = document.JoinMissing(d.row.Missing, what) }

// rereadWithin is how long a first try may take that is done again where it learned nothing of the document. Both stay
// below the twelve minutes in which a unit must make progress, also with the highest limits.document.seconds, 600.
const rereadWithin = time.Minute

func (b *builder) readSteadily(ctx context.Context, d *draft) error {
	seen := blob.Info{Key: d.plan.Object, Size: d.plan.Size, ETag: d.plan.ETag, Modified: d.plan.Modified}
	planned := true
	return stage.ReadSteady(ctx, b.source, seen, func(now blob.Info) error {
		d.reset()
		b.within.Store(0)
		b.reportProgress()
		err := b.readObject(ctx, d, now, planned)
		planned = false
		return err
	})
}

// readObject reads one version of an object. One that was written to meanwhile, or is planned and not of the bytes that
// plan saw, is fault.Precondition: it is looked at again, and counts as what it is then.
func (b *builder) readObject(ctx context.Context, d *draft, now blob.Info, planned bool) error {
	unhashed := d.plan.Version.IsZero() // plan left it to the only reading there is
	body, err := stage.Open(ctx, b.source, now)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	cause := b.parseBody(ctx, d, reading{body, &b.within, d.plan.Size}, planned)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	version, err := body.Digest(func(read int64) {
		b.within.Store(min(d.plan.Size, read))
		b.reportProgress()
	})
	if part := d.plan.Part != ""; part && planned && !fault.Is(cause, fault.DocumentChanged) {
		version = d.plan.Version // as the parser saw
	} else if part {
		version = d.found
	}
	switch {
	case fault.Is(err, fault.Precondition):
		return err
	case err != nil && cause == nil: // the text was not asked for: the parser had what it needs
		return readFault(d.plan.Object, err)
	case err == nil && planned && !unhashed && version != d.plan.Version:
		return fault.Precondition.At("read", d.plan.Object).Because("it changed after planning")
	}
	if err == nil || !planned {
		d.plan.Version = version // zero: none of what could not be read to its end
	}
	d.plan.ETag, d.plan.Modified = now.ETag, now.Modified
	if d.plan.Part == "" {
		d.plan.Size = now.Size
	}
	if !planned && b.Spec.ReadAs().Attachments && document.Kind(d.plan.Kind).HasAttachments() {
		d.plan.ETag = "" // what is attached to it now was not planned: the next run opens it
	}
	return cause
}

func (b *builder) parseBody(ctx context.Context, d *draft, body io.Reader, planned bool) error {
	plain, err := document.Gunzip(body, d.plan.Gzip, d.plan.Object, b.Limits)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what parses is given up where its text is not read to the end
	read := b.Spec.ReadAs()
	asked := document.Reading{Hidden: read.Hidden == "include", Attached: read.Attachments}
	kind, object := document.Kind(d.plan.Kind), d.plan.Object
	if d.plan.Part != "" {
		asked.Part = document.Attachment{Name: d.plan.Part, Kind: kind}
		if planned {
			asked.Part.Version = d.plan.Version
		}
		kind, _, _ = stage.TypeOf(b.Spec, object)
		object += "#" + d.plan.Part
	}
	plain = document.Transcode(plain, kind, stage.EncodingOf(b.Spec, object))
	file, release, err := b.holdFile(&plain, kind, asked)
	defer release()
	if err != nil {
		return readFault(object, err)
	}
	doc, err := b.parseFile(ctx, plain, file, object, d)
	if err != nil {
		return err
	}
	if d.plan.Part != "" {
		d.found = doc.Attached[0].Version
		if doc.Meta == nil {
			doc.Meta = map[string]string{}
		}
		doc.Meta["attached_to"] = core.ObjectKey(d.plan.Object)
	}
	file.object = object
	return b.cutDocument(ctx, object, doc, file, d)
}

// headBytes of a text decide its title, frontBytes whether it begins with front matter that was not read: of Markdown
// it was, where there are metadata.
const headBytes, frontBytes = 8 << 10, 32 << 10

// cutDocument cuts a document's text into the draft; object is what errors name.
func (b *builder) cutDocument(ctx context.Context, object string, doc document.Doc, file held, d *draft) error {
	var column mapped.Column
	defer column.Close()
	sound := document.NewSound(stage.ReadUntil(ctx, doc.Text), object)
	text, err := bufferText(sound, &column)
	if err != nil {
		return readFault(object, err)
	}
	if len(doc.Scans) > 0 && file.raw != nil {
		if text, err = b.transcribePages(ctx, file, &doc, text, d); err != nil {
			return err
		}
	}
	head := text[:min(len(text), headBytes)]
	d.row.Meta, d.places = doc.Meta, doc.Places
	wasRead := document.Kind(d.plan.Kind) == document.Markdown && doc.Meta != nil
	if field := b.Spec.ReadAs().Labels.Field; field != "" && (document.NamesField(doc.Blank, field) ||
		doc.Meta[field] == "" && !wasRead && document.FrontNames(text[:min(len(text), frontBytes)], field)) {
		b.hideDocument(d)
	}
	d.row.Missing = document.JoinMissing(doc.Missing, sound.DescribeLoss())
	d.row.Title = document.TitleOf(
		doc.Title, strings.ToValidUTF8(string(head), ""), document.Kind(d.plan.Kind), cmp.Or(d.plan.Part, object), b.Limits)
	return readFault(object, b.cutText(ctx, bytes.NewReader(text), nil, d))
}

// noteLabels notes among what a document lacks that nobody may read it, as its labels cannot be used.
func (b *builder) noteLabels(key string, d *draft) {
	if _, err := stage.LabelsOf(b.Spec, key, d.row.Meta); err != nil && !strings.Contains(d.row.Missing, err.Error()) {
		d.addMissing(err.Error())
	}
}

// countLabels enters the labels of a document. Too many are refused here, before anything is extracted.
func (b *builder) countLabels(key string, labels core.LabelSet) error {
	if _, known := b.res.Labels[labels]; known || labels == core.Everybody {
		return nil
	}
	if b.labelBytes += len(labels); len(b.res.Labels) == core.MaxLabelSets || b.labelBytes > core.MaxLabelBytes {
		return split.TooManyLabels(key, labels)
	}
	b.res.Labels[labels] = key
	return nil
}

// bufferText reads a text to its end before it is cut. Cutting takes a hundred times as long as reading, and nothing is
// cut of a text that is too long or breaks off.
func bufferText(text io.Reader, in *mapped.Column) ([]byte, error) {
	piece := make([]byte, 32<<10)
	for {
		n, err := text.Read(piece)
		if put := in.Put(piece[:n]); put != nil {
			return nil, put
		}
		if errors.Is(err, io.EOF) {
			return mapped.ViewRecords[byte](in)
		}
		if err != nil {
			return nil, err
		}
	}
}

// cutText cuts a text. former are the chunks that it was cut into before.
func (b *builder) cutText(ctx context.Context, text io.Reader, former []rows.Place, d *draft) error {
	starts := make(map[int]bool, len(former))
	for _, chunk := range former {
		starts[chunk.Start] = true
	}
	return cutChunks(stage.ReadUntil(ctx, text), b.Spec.Chunking, starts, func(c cutting) error {
		d.addCut(c)
		b.reportProgress()
		return ctx.Err()
	})
}

// writeDocument enters a document: its pieces, its chunks, its row. What the row does not say yet is plan's.
func (b *builder) writeDocument(ctx context.Context, key string, d *draft) error {
	row := &d.row
	if !row.Stale {
		row.Version, row.Modified, row.Kind = d.plan.Version, d.plan.Modified, d.plan.Kind
	}
	row.Object, row.ETag, row.Size, row.Frame = d.plan.Object, d.plan.Mark(), d.plan.Size, -1
	labels, _ := stage.LabelsOf(b.Spec, key, row.Meta) // noteLabels says what is wrong
	if err := b.countLabels(key, labels); err != nil {
		return err
	}
	if d.chunks > 0 {
		b.res.Unlabelled.AddUnlabelled(b.Spec, key, row.Meta)
	}
	if d.untagged && row.ETag != "" {
		row.ETag += rows.RefusedTags
	}
	seen := map[core.ID]int{}
	outline := document.NewOutline(document.Kind(row.Kind))
	for pair, err := range d.cuts.StreamSorted() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		c, err := decodeCutting(pair[1])
		if err != nil {
			return err
		}
		frame := b.text.Append(key, textseg.EncodePiece(row.Runes, c.piece))
		if row.Frame < 0 {
			row.Frame = frame
		}
		if c.header > 0 && len(d.places) > 0 {
			d.headers = append(d.headers, repeatedHeader{row.Runes, c.header})
		}
		row.Runes += utf8.RuneCountInString(c.piece)
		outline.Add(c.piece)
		if c.text != "" {
			b.addChunk(key, row, c, labels, frame, seen)
		}
	}
	if row.Untranscribed > 0 {
		b.res.Counts.Untranscribed++
	}
	row.Headings, row.Pages = outline.End()
	d.placeChunks()
	b.docs.Append(key, row.Encode())
	return nil
}

// addChunk enters one chunk.
func (b *builder) addChunk(
	key string, row *rows.Document, c cutting, labels core.LabelSet, frame int, seen map[core.ID]int,
) {
	same := core.ChunkID("", c.text, 0)
	id := core.ChunkID(key, c.text, seen[same])
	seen[same]++
	ordinal := len(row.Chunks)
	end := c.start + utf8.RuneCountInString(c.text)
	row.Chunks = append(row.Chunks, rows.Place{ID: id, Start: c.start, End: end})
	b.chunks.Append(key, rows.Chunk{
		ID: id, Ordinal: ordinal, Start: c.start, End: end, Tokens: c.tokens, Frame: frame, Title: row.Title,
		Labels: labels,
	}.Encode())
	b.res.Counts.Chunks++
	b.res.Counts.Tokens += int64(c.tokens)
	b.res.Hashes.Content.Add(core.Sum("chunk", id.String(), key, fmt.Sprint(ordinal)))
	b.res.Hashes.Text.Add(core.Sum("chunk", id.String(), core.Sum(row.Title+"\n\n"+c.text).String()))
}

// readFault makes a broken source a problem of the document.
func readFault(object string, err error) error {
	if err == nil || fault.As(err) != nil || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		if e := fault.As(err); e != nil && e.Object == "" {
			c := *e
			c.Object = object
			return &c
		}
		return err
	}
	return fault.Unreadable.At("read", object).Because(err).Advise("repair or replace the file: it is damaged")
}
