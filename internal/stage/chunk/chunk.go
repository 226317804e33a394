// Package chunk turns documents into chunks. A unit of the plan becomes one text segment (the decoded documents in
// pieces), one documents segment and one scratch file of chunks. Documents are streamed; what is held is one chunk
// and the places of one document's chunks.
//
// Text pieces are keyed by document key; a value is the piece's start (code points) and its text. Pieces of a document
// are consecutive, so the text of a chunk is a slice of the pieces from its frame on.
package chunk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/format/textseg"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// In is what one unit works on. OnProgress is told of documents done.
type In struct {
	Spec       corpus.Spec
	Corpus     blob.Store
	Artifacts  artifact.Index
	Scratch    string
	Unit       int
	From, To   int // frames of plan.rows
	OnProgress func(documents int64)
}

// Result is chunk-<unit>.json. Listed = Counts.Documents + Failed + Empty.
type Result struct {
	Text      corpus.Segment `json:"text"`
	Documents corpus.Segment `json:"documents"`
	Counts    corpus.Counts  `json:"counts"` // Documents: those that gave chunks
	Hashes    corpus.Hashes  `json:"hashes"`
	Listed    int64          `json:"listed"` // documents of the unit
	Failed    int64          `json:"failed"` // could not be read, or not to their end; those of plan included
	Empty     int64          `json:"empty"`  // documents without text
	Fresh     int64          `json:"fresh"`  // segments that were new

	// Problems are those that this stage found: plan tells of its own. They are the first MaxProblems; all are at
	// ProblemsKey.
	Problems     []corpus.Problem `json:"problems,omitempty"`
	ProblemCount int64            `json:"problem_count"`
}

// MaxProblems is how many problems of one unit its result lists; a report lists the first hundred of all.
const MaxProblems = 100

// ProblemsKey is the scratch file of all problems that a unit found, one JSON object a line as in plan's. It is there
// only where ProblemCount is not 0.
func ProblemsKey(scratch string, unit int) string {
	return fmt.Sprintf("%s/chunk-%05d-problems.jsonl", scratch, unit)
}

type builder struct {
	In
	text, docs, chunks *artifact.Rows
	problems           *artifact.File
	res                Result
}

// Run does one unit.
func Run(ctx context.Context, in In) (Result, error) {
	b := &builder{In: in}
	for _, w := range []**artifact.Rows{&b.text, &b.docs, &b.chunks} {
		var err error
		if *w, err = artifact.NewRows(); err != nil {
			return b.res, err
		}
		defer (*w).Discard()
	}
	var err error
	if b.problems, err = artifact.NewFile(); err != nil {
		return b.res, err
	}
	defer b.problems.Discard()
	plan, err := artifact.OpenRows(ctx, in.Artifacts.Store, in.Scratch+"/plan.rows")
	if err != nil {
		return b.res, err
	}
	for row, err := range plan.Scan(ctx, in.From, in.To) {
		if err != nil {
			return b.res, err
		}
		p, err := rows.DecodePlan(row.Value)
		if err != nil {
			return b.res, err
		}
		if err := b.document(ctx, string(row.Key), p); err != nil {
			return b.res, err
		}
		b.res.Listed++
		in.OnProgress(b.res.Listed)
	}
	return b.finish(ctx)
}

func (b *builder) finish(ctx context.Context) (Result, error) {
	var err error
	var fresh [2]bool
	if b.res.Text, fresh[0], err = b.text.Segment(ctx, b.Artifacts, b.Unit); err != nil {
		return b.res, err
	}
	if b.res.Documents, fresh[1], err = b.docs.Segment(ctx, b.Artifacts, b.Unit); err != nil {
		return b.res, err
	}
	for _, f := range fresh {
		if f {
			b.res.Fresh++
		}
	}
	if b.res.ProblemCount > 0 {
		if err := b.problems.Put(ctx, b.Artifacts.Store, ProblemsKey(b.Scratch, b.Unit)); err != nil {
			return b.res, err
		}
	}
	return b.res, b.chunks.Scratch(ctx, b.Artifacts.Store, items.ChunksKey(b.Scratch, b.Unit))
}

// document chunks one document. What is wrong with the document is recorded; what is wrong with a store is returned.
func (b *builder) document(ctx context.Context, key string, plan rows.Plan) error {
	d := rows.Document{
		Object:   plan.Object,
		Version:  plan.Version,
		ETag:     plan.ETag,
		Size:     plan.Size,
		Modified: plan.Modified,
		Kind:     plan.Kind,
		Frame:    -1,
	}
	if plan.Problem != "" { // plan found it, and told of it
		d.Problem = plan.Problem
		b.miss(fault.Code(plan.Problem))
		b.docs.Append(key, d.Encode())
		return nil
	}
	err := b.read(ctx, key, plan, &d)
	if err == nil && len(d.Chunks) == 0 {
		err = fault.EmptyDocument.At("chunk", key).Because("it holds no text")
	}
	if err == nil {
		b.res.Counts.Documents++
	} else {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		code := fault.CodeOf(err)
		if code == fault.Precondition {
			err, code = fault.DocumentChanged.At("read", plan.Object).
				Because("it changed while it was indexed").
				Advise("run index again"),
				fault.DocumentChanged
		}
		if k := fault.KindOf(err); k != fault.Content && code != fault.StoreDenied && code != fault.NotFound {
			return err
		}
		d.Problem = string(code)
		b.miss(code)
		if err := b.problem(corpus.Problem{Code: string(code), Object: key, Detail: err.Error()}); err != nil {
			return err
		}
	}
	b.docs.Append(key, d.Encode())
	return nil
}

// miss counts a document without chunks.
func (b *builder) miss(code fault.Code) {
	if code == fault.EmptyDocument {
		b.res.Empty++
	} else {
		b.res.Failed++
	}
}

func (b *builder) problem(problem corpus.Problem) error {
	b.res.ProblemCount++
	if len(b.res.Problems) < MaxProblems {
		b.res.Problems = append(b.res.Problems, problem)
	}
	raw, err := json.Marshal(struct {
		corpus.Problem
		Standing bool `json:"standing"`
	}{Problem: problem})
	if err != nil {
		return fault.Internal.At("encode problem", problem.Object).Because(err)
	}
	_, err = b.problems.Write(append(raw, '\n'))
	return err
}

// read opens, parses and cuts one document.
func (b *builder) read(ctx context.Context, key string, plan rows.Plan, d *rows.Document) error {
	var doc document.Doc
	if plan.Line > 0 {
		title, text, meta, err := document.Record(plan.Record)
		if err != nil {
			return fault.Unreadable.At("read row", key).Because(err)
		}
		doc = document.Doc{Title: title, Meta: meta, Text: strings.NewReader(text)}
	} else {
		body, _, err := b.Corpus.Get(ctx, plan.Object, blob.Range{Length: -1, Match: plan.ETag})
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		plain, err := document.Gunzip(body, plan.Gzip, plan.Object)
		if err != nil {
			return err
		}
		if doc, err = document.Parse(plain, document.Kind(plan.Kind), plan.Object); err != nil {
			return err
		}
	}
	d.Meta = doc.Meta
	object := plan.Object
	if plan.Line > 0 {
		object = key
	}
	return b.cut(ctx, key, object, doc, d)
}

// headBytes of a text decide its title.
const headBytes = 8 << 10

// cut cuts a document's text and writes its pieces and chunks.
func (b *builder) cut(ctx context.Context, key, object string, doc document.Doc, d *rows.Document) error {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(doc.Text, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return readFault(object, err)
	}
	head = head[:n]
	d.Title = document.TitleOf(doc.Title, strings.ToValidUTF8(string(head), ""), document.Kind(d.Kind), object)
	seen := map[corpus.ID]int{}
	err = cut(io.MultiReader(strings.NewReader(string(head)), doc.Text), b.Spec.Chunking, func(c cutting) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		frame := b.text.Append(key, textseg.Piece(d.Runes, c.piece))
		if d.Frame < 0 {
			d.Frame = frame
		}
		d.Runes += utf8.RuneCountInString(c.piece)
		if c.text == "" {
			return nil
		}
		same := corpus.ChunkID("", c.text, 0)
		id := corpus.ChunkID(key, c.text, seen[same])
		seen[same]++
		ord := len(d.Chunks)
		end := c.start + utf8.RuneCountInString(c.text)
		d.Chunks = append(d.Chunks, rows.Place{ID: id, Start: c.start, End: end})
		b.chunks.Append(
			key,
			rows.Chunk{
				ID:      id,
				Ordinal: ord,
				Start:   c.start,
				End:     end,
				Tokens:  c.tokens,
				Frame:   frame,
				Title:   d.Title,
			}.Encode(),
		)
		b.res.Counts.Chunks++
		b.res.Counts.Tokens += int64(c.tokens)
		b.res.Hashes.Content.Add(corpus.Sum("chunk", id.String(), key, fmt.Sprint(ord)))
		b.res.Hashes.Text.Add(corpus.Sum("chunk", id.String(), corpus.Sum(d.Title+"\n\n"+c.text).String()))
		b.OnProgress(b.res.Listed)
		return nil
	})
	return readFault(object, err)
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
	return fault.Unreadable.At("read", object).Because(err).Advise("the file is damaged")
}
