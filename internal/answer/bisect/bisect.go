// Package bisect finds the night that took a document away from a question: of the kept generations the last one that
// returns the document and the first one after it that does not, and what changed between them (causes.go).
package bisect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Request says what is searched for.
type Request struct {
	Query     string        `json:"query" length:"1,8192" pattern:"\\S" required:"true" doc:"the question"`
	Expect    string        `json:"expect" pattern:"\\S" required:"true" doc:"key of a document, or id of a passage"`
	From      string        `json:"from,omitempty" doc:"a generation that returns it; default: the oldest that is kept"`
	To        string        `json:"to,omitempty" doc:"a later generation that does not; default: the current one"`
	Method    string        `json:"method,omitempty" doc:"default: the retrieval.method of each generation"`
	TopChunks *answer.Count `json:"top_chunks,omitempty" bounds:"1,100" doc:"passages that count; default: the index's"`
}

// Found is the night that took a document away.
type Found struct {
	Index     string   `json:"index"`
	Good      Probe    `json:"good" doc:"the last generation that returns it"`
	Bad       Probe    `json:"bad" doc:"the first generation after it that does not"`
	Causes    []Cause  `json:"causes" doc:"what changed, the best evidence first"`
	Ranking   []Row    `json:"ranking" doc:"passages that either of the two returns; empty: bad lacks what is expected"`
	Notices   []string `json:"notices" doc:"limits of what was found, and generations that were skipped"`
	Questions int      `json:"questions" doc:"how often a generation that has the document was asked"`
	Tokens    int64    `json:"tokens" doc:"that models used for all questions"`
}

// Probe is what one generation returns.
type Probe struct {
	Generation string `json:"generation"`
	Seq        int64  `json:"seq"`
	Top        int    `json:"top" doc:"how many passages count"`
	Rank       int    `json:"rank" doc:"of the document among them; 0: it is not"`
	Indexed    bool   `json:"indexed" doc:"it has the document; one that lacks it is not asked"`
}

// Cause is something that changed.
type Cause struct {
	Kind      string `json:"kind" enum:"document,setting,program,passage_above,entity"`
	Change    string `json:"change" doc:"what became of the object, in a word; together: of several"`
	Object    string `json:"object" doc:"key of a document, name of a setting or an entity; empty: several together"`
	Text      string `json:"text" doc:"the cause in words, with the values before and after"`
	Confirmed bool   `json:"confirmed" doc:"the passage is gone, or the later generation returns it without the change"`
	Rank      int    `json:"rank,omitempty" doc:"that the document has without the change"`
}

// Row is a passage that one of the two generations returns.
type Row struct {
	Document string `json:"document"`
	Before   int    `json:"before" doc:"rank in the earlier generation; 0: not returned"`
	After    int    `json:"after" doc:"rank in the later one, beyond its top by the search alone; 0: none"`
	Expected bool   `json:"expected" doc:"the passage is the expected one, or of the expected document"`
	Change   string `json:"change" enum:"same,added,changed,removed" doc:"what became of its document"`
}

// Index is one index as a search reads it, in the name of who asks.
type Index struct {
	artifact.Index
	Ask  func(ctx context.Context, index string, body answer.Request, found answer.Found) (answer.Response, error)
	Open func(ctx context.Context, index, generation string) (*retrieve.Generation, error) // the caller closes it
}

// ofOne are the errors of one generation, as a collection that is missing is: others can be asked.
var ofOne = []fault.Code{fault.GenCollected, fault.UnknownGen, fault.SegmentDamage, fault.FormatUnknown}

// mostScanned generations are asked where neither end returns the document.
const mostScanned = 30

// asked is what one generation returned.
type asked struct {
	Probe
	manifest string
	response answer.Response // empty where it was not asked
}

// search is one search under way.
type search struct {
	index Index
	Request
	out  Found
	kept []artifact.Generation // those that may be asked, in the order of publication
	done map[string]asked      // those that were, by name
	err  error                 // the first of a generation that cannot be passed over; none is asked after it

	// What the two generations are compared by (causes.go).
	good, bad     *retrieve.Generation
	before, after answer.Response // of the question; after is empty where the bad one lacks what is expected
	order         []answer.Chunk  // passages of after, and then what the bad one's search alone finds, 100 of it
	lost          answer.Chunk    // the expected passage as the good generation returns it
}

// Find finds the night. It asks one generation at a time: both ends, then the middle of what is left. Where the oldest
// one does not return the document either, it asks the newest 30, backwards. Errors: fault.UnknownGen,
// fault.InvalidParam where no two generations differ, and those of questions.
func Find(ctx context.Context, index Index, request Request) (Found, error) {
	s := search{index: index, Request: request, done: map[string]asked{}}
	s.out = Found{Index: index.Name, Causes: []Cause{}, Ranking: []Row{}, Notices: []string{}}
	bad, err := 0, s.listKept(ctx)
	if err == nil {
		bad, err = s.narrow(ctx)
	}
	if err == nil {
		err = s.explain(ctx, s.probe(ctx, bad-1), s.probe(ctx, bad))
	}
	return s.out, err
}

func newFault(object, why, hint string) error {
	return fault.InvalidParam.At("bisect", object).Because(why).Advise(hint)
}

// listKept lists the generations from one end to the other: published ones, and those that are named.
func (s *search) listKept(ctx context.Context) error {
	all, err := s.index.ListGenerations(ctx)
	if err != nil {
		return err
	}
	if s.To == "" && len(all) > 0 {
		s.To = all[0].Generation // the current one
	}
	slices.SortStableFunc(all, func(a, b artifact.Generation) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, name := range []string{s.From, s.To} {
		at := slices.IndexFunc(all, func(one artifact.Generation) bool { return one.Generation == name })
		switch {
		case name == "":
		case at < 0:
			return fault.UnknownGen.At("bisect", fault.QuoteName(name)).
				Because("the index has no generation of that name, or it is older than from").
				Advise("to list them: unweaver generations " + s.index.Name)
		case i == 0:
			all = all[at:]
		default:
			all = all[:at+1]
		}
	}
	s.kept = slices.DeleteFunc(all, func(one artifact.Generation) bool {
		served := one.State != core.GenerationHeld && one.State != core.GenerationDiscarded
		return !served && one.Generation != s.From && one.Generation != s.To
	})
	if len(s.kept) < 2 {
		return newFault("from", "no earlier generation is kept",
			"name a later one with to; indexes."+s.index.Name+".keep and tags keep more of them")
	}
	return nil
}

// narrow returns the place of a generation that lacks the document, right after one that returns it.
func (s *search) narrow(ctx context.Context) (int, error) {
	lacks := func(at int) bool { return s.probe(ctx, at).Rank == 0 }
	end := len(s.kept) - 1
	last := s.probe(ctx, end)
	switch {
	case last.Rank > 0:
		return 0, newFault("to", fmt.Sprintf("generation %s still returns %s, at rank %d of %d", last.Generation,
			fault.QuoteName(s.Expect), last.Rank, last.Top), "name another generation with to, or a smaller top_chunks")
	case !lacks(0):
		return sort.Search(end, lacks), s.err
	}
	for at := end - 1; s.From == "" && at > 0 && len(s.done) < mostScanned; at-- {
		if !lacks(at) {
			return at + 1, s.err
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	why := fmt.Sprintf("none of the %d generations that were asked returns %s among its first %d passages", len(s.done),
		fault.QuoteName(s.Expect), last.Top)
	return 0, newFault("expect", strings.Join(append([]string{why}, s.out.Notices...), "; "),
		"raise top_chunks, or try another method or from; documents: /v1/indexes/"+s.index.Name+"/documents")
}

// probe asks the generation at a place, once. One that cannot be asked counts as the next one, and a notice says so.
func (s *search) probe(ctx context.Context, at int) asked {
	name := s.kept[at].Generation
	one, known := s.done[name]
	if known || s.err != nil {
		return one
	}
	one, s.err = s.askOnce(ctx, s.kept[at])
	missing := fault.Is(s.err, fault.StoreDown) && fault.As(s.err).Op == retrieve.LoadVectors
	if (missing || slices.Contains(ofOne, fault.CodeOf(s.err))) && at < len(s.kept)-1 {
		s.out.Notices = append(s.out.Notices, fmt.Sprintf("generation %s was skipped: %v", name, s.err))
		s.err = nil
		one = s.probe(ctx, at+1)
	}
	s.done[name] = one
	return one
}

// askOnce asks a generation, unless it lacks what is expected: then it returns rank 0.
func (s *search) askOnce(ctx context.Context, one artifact.Generation) (out asked, err error) {
	generation, err := s.index.Open(ctx, s.index.Name, one.Generation)
	if err != nil {
		return out, err
	}
	defer generation.Close()
	top := answer.Count(generation.Spec.Retrieval.TopChunks)
	if s.TopChunks != nil {
		top = *s.TopChunks
	}
	from, to, _ := generation.DocumentsFrom(s.Expect+"#", 0, 1)
	live := generation.Live
	indexed := to > from || live.FindDocument(s.Expect) >= 0 || live.FindChunk(idOf(s.Expect)) != nil
	out.manifest = one.Manifest
	out.Probe = Probe{Generation: one.Generation, Seq: one.Seq, Top: int(top), Indexed: indexed}
	if indexed {
		out.response, err = s.ask(ctx, one.Generation, nil)
		out.Rank = s.rankIn(out.response.Chunks)
	}
	return out, err
}

// ask asks a generation the question. A ranking by a part of the search means nothing: it is an error.
func (s *search) ask(ctx context.Context, name string, edit func(*answer.Request)) (answer.Response, error) {
	body := answer.Request{Query: s.Query, Method: s.Method, TopChunks: s.TopChunks, Generation: &name}
	if edit != nil {
		edit(&body)
	}
	s.out.Questions++
	response, err := s.index.Ask(ctx, s.index.Name, body, nil)
	used := response.Usage
	s.out.Tokens += used.EmbeddingTokens + used.PromptTokens + used.CompletionTokens + used.RerankTokens
	for _, part := range response.Degraded {
		if err != nil || part == "records" || strings.HasPrefix(part, "notes_") { // the ranking is whole
			continue
		}
		if response.Rerank != nil && response.Rerank.Reason != "" {
			part += " (" + response.Rerank.Reason + ")"
		}
		err = fault.EmbedderDown.At("bisect", name).Because("the search is without its part " + part).
			Advise("for vectors run: unweaver restore " + s.index.Name + "; else try again when the model servers answer " +
				"(models.*), or use method bm25")
	}
	return response, err
}

// rankIn returns the best rank of the expected document among passages; 0: it is not there.
func (s *search) rankIn(chunks []answer.Chunk) int { return 1 + slices.IndexFunc(chunks, s.isExpected) }

// isExpected reports whether a passage is the expected one, or of the expected document, or of a row of it.
func (s *search) isExpected(chunk answer.Chunk) bool {
	return chunk.ID == s.Expect || chunk.Document == s.Expect || strings.HasPrefix(chunk.Document, s.Expect+"#")
}
