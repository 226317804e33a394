package chunk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/docling"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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
			objects["large.html.gz"] = gz(t, strings.Repeat("<p>half</p>", 300))
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
