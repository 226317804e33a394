package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// scanParser lists pages to transcribe, and renders them, or fails to.
type scanParser struct {
	pages    int
	broken   error
	rendered *atomic.Int64
}

func (p scanParser) Parse(ctx context.Context, raw io.Reader, _ document.Kind, _ string) (document.Doc, error) {
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return document.Doc{}, err
	}
	doc := document.Doc{Text: strings.NewReader("words" + strings.Repeat("\n\f\n", p.pages))}
	asked := document.ReadingOf(ctx)
	if asked.Scans != "" {
		for page := range p.pages {
			doc.Scans = append(doc.Scans, page+1)
		}
	}
	if len(asked.Pictures) > 0 {
		if p.rendered.Add(1); p.broken != nil {
			return document.Doc{}, p.broken
		}
		for _, page := range asked.Pictures {
			doc.Pictures = append(doc.Pictures, document.Picture{Page: page, JPEG: []byte{byte(page)}})
		}
	}
	return doc, nil
}

// Pages that fail are grouped by why, the next run asks again where that was no fault of theirs, a document that cannot
// be rendered is given up, and only a model that refuses a blank sheet as well takes no pictures.
func TestPagesThatFailAreBounded(t *testing.T) {
	refusal := fault.PicturesRefused.At("ask", "m").
		Because("400 no image at http://10.0.0.1:8000/v1/x " + strings.Repeat("é", 300))
	refuses := func(probe bool) func(model.Call) (model.Reply, error) {
		return func(call model.Call) (model.Reply, error) {
			if !probe && bytes.Equal(call.Pictures[0], model.ProbePicture()) {
				return model.Reply{Text: "EMPTY"}, nil
			}
			return model.Reply{}, refusal
		}
	}
	for name, c := range map[string]struct {
		broken        error
		answer        func(model.Call) (model.Reply, error)
		missing       string
		untranscribed int
		renderings    int64 // at most
	}{
		"no pictures": {nil, refuses(true), "not transcribed (pictures_refused: models.vision takes no images: 400 no " +
			"image at (address) éé", 1, 5},
		"this picture": {nil, refuses(false), "pages 1-30 are not transcribed (model_rejected: 400 no image", 1, 5},
		"broken": {fault.ParseCrashed.At("parse", "a"), stagetest.Says("x"),
			"pages 1-30 are not transcribed (parse_crashed: it cannot be rendered)", 1, 7},
		"busy": {fault.Quarantined.At("parse", "a"), stagetest.Says("x"), "(document_quarantined: it", 2, 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{"a.pdf": "%PDF-1.4 of a test"})
			r.spec.Documents = &core.Documents{Vision: core.Vision{Pages: core.PagesScanned}}
			units := r.plan().Units
			var rendered atomic.Int64
			res, err := chunk.Run(t.Context(), chunk.In{
				Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, Plan: r.rows(),
				From: units[0].From, To: units[0].To, Limits: r.limits, OnProgress: func(int64) {},
				Parser: scanParser{30, c.broken, &rendered},
				Vision: &chunk.Vision{Chat: &stagetest.Chat{Answer: c.answer}},
				Ledger: ledger.New(r.art.Store, memory.NewClaims()),
			})
			if !assert.NoError(t, err) || !assert.Len(t, res.Problems, 1) {
				return
			}
			detail := res.Problems[0].Detail
			assert.Contains(t, detail, c.missing)
			assert.Less(t, len([]rune(detail)), 500)
			assert.NotContains(t, detail, "://")
			assert.Equal(t, c.untranscribed, r.documents(res)["a.pdf"].Untranscribed)
			assert.LessOrEqual(t, rendered.Load(), c.renderings)
			assert.EqualValues(t, 1, res.Counts.Untranscribed)
		})
	}
}

// script answers for files, one after another: with a text, or an error.
type script struct {
	answers []any
	asked   int
}

func (s *script) Convert(context.Context, string, []byte, func()) (string, error) {
	answer := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	if err, failed := answer.(error); failed {
		return "", fault.Unreadable.At("parse", "").Because(err)
	}
	return answer.(string), nil
}

// A unit leaves a server that is down, or fails on two files in a row, and asks on after one file. A file or a text
// above the limits never passes for whole.
func TestAServerThatFailsIsLeftByTheUnit(t *testing.T) {
	passing := errors.New("no time")
	ownFile := fmt.Errorf("%w: failure", docling.ErrFile)
	for name, c := range map[string]struct {
		answers []any
		asked   int
		problem string // of the last document that has one
	}{
		"it serves":          {[]any{"said"}, 5, ""},
		"one file":           {[]any{passing, "said"}, 5, "no time"},
		"every other file":   {[]any{passing, "said", passing, ownFile, passing}, 5, "no time"},
		"two files in a row": {[]any{passing}, 2, "no time"},
		"files of its own":   {[]any{ownFile}, 5, "could not parse the file"},
		"down":               {[]any{docling.ErrDown}, 1, "cannot be used"},
		"a long text":        {[]any{strings.Repeat("said ", 300)}, 5, "limits.document.text"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := map[string]string{}
			for i := range 5 {
				objects[fmt.Sprintf("%d.html", i)] = fmt.Sprintf("<p>own words %d</p>", i)
			}
			objects["large.html.gz"] = documenttest.Gzip(strings.Repeat("<p>half</p>", 300))
			r := newRun(t, objects)
			r.limits.Bytes, r.limits.Text = 1500, 1000
			r.spec.Documents = &core.Documents{Parser: core.ParserServer{Provider: "docling", Kinds: []string{"html"}}}
			server := &script{answers: c.answers}
			r.server, r.ledger = server, ledger.New(r.art.Store, memory.NewClaims())
			res := stagetest.Must(r.chunk(t.Context(), 0, r.plan().Units))
			assert.Equal(t, c.asked, server.asked)
			var large core.Problem
			detail := ""
			for _, problem := range res.Problems {
				if problem.Object == "large.html.gz" {
					large = problem
				} else {
					detail = problem.Detail
				}
			}
			assert.Contains(t, large.Detail, "limits.document.bytes")
			assert.Equal(t, string(fault.TooLarge), large.Code)
			if c.problem == "" {
				assert.Empty(t, detail)
			}
			assert.Contains(t, detail, c.problem)
			assert.EqualValues(t, 5, res.Counts.Documents)
		})
	}
}
