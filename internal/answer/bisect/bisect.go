// Package bisect finds the night that took a document away from a question: of the kept generations the last one that
// returns the document and the first one after it that does not, and what changed between them (causes.go).
package bisect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	Tokens    int64    `json:"tokens" doc:"paid for by all questions"`
	Cost      float64  `json:"cost" doc:"money that all questions cost"`
	Currency  string   `json:"currency,omitempty" doc:"of the cost; absent: not set"`
	Seconds   float64  `json:"seconds"`
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
	Kind      string `json:"kind" enum:"document,model,setting,program,passage_above,entity"`
	Change    string `json:"change" doc:"what became of the object, in a word; together: of several"`
	Object    string `json:"object" doc:"key of a document, name of a setting or an entity; empty: several together"`
	Text      string `json:"text" doc:"the cause in words, with the values before and after"`
	Confirmed bool   `json:"confirmed" doc:"the passage is gone, or the later generation returns it without the change"`
	Rank      int    `json:"rank,omitempty" doc:"that the document has without the change"`
}

// Row is a passage that one of the two generations returns.
type Row struct {
	ID       string `json:"id"`
	Document string `json:"document"`
	Before   int    `json:"before" doc:"rank in the earlier generation; 0: not returned"`
	After    int    `json:"after" doc:"rank in the later one, beyond its top that of the search; 0: none"`
	Expected bool   `json:"expected" doc:"the passage is the expected one, or of the expected document"`
	Change   string `json:"change" enum:"same,added,changed,removed" doc:"what became of its document"`
}

// Index is one index as a search reads it, in the name of who asks.
type Index struct {
	artifact.Index
	Ask  func(ctx context.Context, body answer.Request) (answer.Response, error)
	Open func(ctx context.Context, generation string) (*retrieve.Generation, error) // the caller closes it
}

// mostScanned generations are asked where neither end returns the document.
const mostScanned = 30

// search is one search under way.
type search struct {
	index Index
	Request
	out     *Found
	kept    []artifact.Generation      // those that may still be asked, in the order of publication
	answers map[string]answer.Response // of those that were
	probes  map[string]Probe
}

// Find finds the night. It asks one generation at a time: both ends, then the middle of what is left. Where the oldest
// one does not return the document either, it asks the newest 30, backwards. Errors: fault.UnknownGen, fault.NotFound
// where no generation has the document, fault.InvalidParam where the ends do not differ, and those of questions.
func Find(ctx context.Context, index Index, request Request) (out Found, err error) {
	began := time.Now()
	request.Query, request.Expect = strings.TrimSpace(request.Query), strings.TrimSpace(request.Expect)
	out = Found{Index: index.Name, Causes: []Cause{}, Ranking: []Row{}, Notices: []string{}}
	s := search{
		index: index, Request: request, out: &out, answers: map[string]answer.Response{}, probes: map[string]Probe{},
	}
	if request.Expect == "" {
		return out, newFault("expect", "it is empty", "name a document by its key, or a passage by its id")
	}
	bad := 0
	if err = s.listKept(ctx); err == nil {
		bad, err = s.narrow(ctx)
	}
	if err == nil {
		err = s.explain(ctx, s.kept[bad-1], s.kept[bad])
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fault.Timeout.At("bisect", index.Name).
			Because(fmt.Sprintf("the time was over after %d questions", out.Questions)).
			Advise("try again, as some generations are open now; or search between fewer of them, with from and to")
	}
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

func newFault(object, why, hint string) error {
	return fault.InvalidParam.At("bisect", object).Because(why).Advise(hint)
}

func (s *search) notice(text string, values ...any) {
	s.out.Notices = append(s.out.Notices, fmt.Sprintf(text, values...))
}

// listKept lists the generations from one end to the other: published ones, and those that are named.
func (s *search) listKept(ctx context.Context) error {
	all, err := s.index.ListGenerations(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b artifact.Generation) int { return cmp.Compare(a.Seq, b.Seq) })
	ends := [2]int{0, slices.IndexFunc(all, func(one artifact.Generation) bool { return one.State == "current" })}
	for i, name := range [2]string{s.From, s.To} {
		if name != "" {
			ends[i] = slices.IndexFunc(all, func(one artifact.Generation) bool { return one.Generation == name })
		}
		if ends[i] < 0 {
			return fault.UnknownGen.At("bisect", fault.QuoteName(name)).
				Because("index " + s.index.Name + " has no generation of that name, or serves none").
				Advise("to list them: unweaver generations " + s.index.Name)
		}
		if name != "" && all[ends[i]].State == artifact.Damaged {
			return fault.SegmentDamage.At("bisect", name).Because("this generation is damaged").
				Advise("name another one with from or to")
		}
	}
	for at := ends[0]; at <= ends[1]; at++ {
		one := all[at]
		served := one.State == core.GenerationPublished || one.State == "current"
		switch {
		case served && !one.Collected || at == ends[1] || one.Generation == s.From:
			s.kept = append(s.kept, one)
		case served || one.State == artifact.Damaged:
			s.notice("generation %s was skipped: it is damaged, or is being deleted", one.Generation)
		}
	}
	return nil
}

// narrow returns the place of a generation that lacks the document, right after one that returns it.
func (s *search) narrow(ctx context.Context) (int, error) {
	var first, last Probe
	var err error
	for last == (Probe{}) || first == (Probe{}) { // the oldest may be on its way out
		if len(s.kept) < 2 {
			why := strings.Join(append([]string{"no earlier generation is kept that can be asked"},
				s.out.Notices[:min(1, len(s.out.Notices))]...), "; ")
			return 0, newFault("from", why,
				"from must be older than to; indexes."+s.index.Name+".keep and tags keep more of them")
		}
		if last == (Probe{}) {
			last, err = s.probe(ctx, len(s.kept)-1, true)
		} else {
			first, err = s.probe(ctx, 0, s.From != "")
		}
		if err == nil && last.Rank > 0 {
			err = newFault("to", fmt.Sprintf("generation %s still returns %s, at rank %d of %d", last.Generation,
				fault.QuoteName(s.Expect), last.Rank, last.Top), "name another generation with to, or a smaller top_chunks")
		}
		if err != nil {
			return 0, err
		}
	}
	switch {
	case first.Rank > 0:
		return s.halve(ctx)
	case s.From != "":
		return 0, s.refuse(fmt.Sprintf("generation %s does not return %s among its first %d passages",
			first.Generation, fault.QuoteName(s.Expect), first.Top), "name a generation that returns it, or leave from out")
	}
	for at := len(s.kept) - 2; at > 0 && len(s.probes) < mostScanned; at-- {
		if probe, err := s.probe(ctx, at, false); err != nil || probe.Rank > 0 {
			return at + 1, err
		}
	}
	return 0, s.refuse(fmt.Sprintf("none of the %d generations that were asked returns %s among its first %d "+
		"passages", len(s.probes), fault.QuoteName(s.Expect), last.Top), "raise top_chunks, or try another method")
}

// halve searches between the first generation, which returns the document, and the last one, which does not.
func (s *search) halve(ctx context.Context) (int, error) {
	good, bad := 0, len(s.kept)-1
	for bad-good > 1 {
		middle := (good + bad) / 2
		probe, err := s.probe(ctx, middle, false)
		switch {
		case err != nil:
			return 0, err
		case probe == Probe{}:
			bad-- // the one in the middle is out
		case probe.Rank > 0:
			good = middle
		default:
			bad = middle
		}
	}
	return bad, nil
}

// probe asks the generation at a place. Where it cannot be asked and need not be, it is taken out, and the probe is
// empty.
func (s *search) probe(ctx context.Context, at int, must bool) (Probe, error) {
	name := s.kept[at].Generation
	probe, err := s.askOnce(ctx, s.kept[at])
	if err != nil && !must && ctx.Err() == nil && isOfOne(err) {
		s.notice("generation %s was skipped: %v", name, err)
		s.kept = slices.Delete(s.kept, at, at+1)
		return Probe{}, nil
	}
	if err == nil {
		s.probes[name] = probe
	}
	return probe, err
}

// askOnce asks a generation, unless it lacks what is expected: then it returns rank 0.
func (s *search) askOnce(ctx context.Context, one artifact.Generation) (Probe, error) {
	generation, err := s.index.Open(ctx, one.Generation)
	if err != nil {
		return Probe{}, err
	}
	defer generation.Close()
	top := answer.Count(generation.Spec.Retrieval.TopChunks)
	if s.TopChunks != nil {
		top = *s.TopChunks
	}
	s.out.Currency = generation.Spec.Currency
	probe := Probe{Generation: one.Generation, Seq: one.Seq, Top: int(top), Indexed: s.isIndexed(generation)}
	if probe.Indexed {
		response, err := s.ask(ctx, one.Generation, nil)
		s.answers[one.Generation], probe.Rank = response, s.rankIn(response)
		return probe, err
	}
	return probe, nil
}

// isOfOne reports whether an error is of one generation, so that others can be asked.
func isOfOne(err error) bool {
	return fault.Is(err, fault.StoreDown) && fault.As(err).Op == retrieve.LoadVectors ||
		fault.Is(err, fault.GenCollected) || fault.Is(err, fault.UnknownGen) || fault.Is(err, fault.SegmentDamage) ||
		fault.Is(err, fault.FormatUnknown)
}

// ask asks a generation the question. A ranking by a part of the search means nothing: it is an error.
func (s *search) ask(ctx context.Context, name string, edit func(*answer.Request)) (answer.Response, error) {
	body := answer.Request{Query: s.Query, Method: s.Method, TopChunks: s.TopChunks, Generation: &name}
	if edit != nil {
		edit(&body)
	}
	s.out.Questions++
	response, err := s.index.Ask(ctx, body)
	for _, part := range response.Degraded {
		switch {
		case err != nil || part == "records" || strings.HasPrefix(part, "notes_"): // the ranking is whole
		case part == retrieve.NoVectors:
			err = fault.StoreDown.At(retrieve.LoadVectors, name).Because("rows of it are missing from the vector store").
				Advise("run: unweaver restore " + s.index.Name)
		case response.Rerank != nil && response.Rerank.Reason != "":
			err = fault.Code(response.Rerank.Reason).At("rerank passages of", name).
				Because("its reranker (models.rerank) failed: " + response.Rerank.Reason)
		default:
			err = fault.EmbedderDown.At("bisect", name).Because("the search is without its part " + part).
				Advise("try again when the model servers answer (models.embedding, models.chat), or use method bm25")
		}
	}
	return response, err
}

// rankIn returns the best rank of the expected document; 0: it is not there.
func (s *search) rankIn(response answer.Response) int {
	for _, chunk := range response.Chunks {
		if s.isExpected(chunk) {
			return chunk.Rank
		}
	}
	return 0
}

// isExpected reports whether a passage is the expected one, or of the expected document, or of a row of it.
func (s *search) isExpected(chunk answer.Chunk) bool {
	return chunk.ID == s.Expect || chunk.Document == s.Expect || strings.HasPrefix(chunk.Document, s.Expect+"#")
}

// isIndexed reports whether a generation has the expected document or passage.
func (s *search) isIndexed(generation *retrieve.Generation) bool {
	from, to, _ := generation.DocumentsFrom(s.Expect+"#", 0, 1)
	return to > from || generation.Live.FindDocument(s.Expect) >= 0 || generation.Live.FindChunk(idOf(s.Expect)) != nil
}

// refuse returns why nothing is found: a name that no generation has, or what is said.
func (s *search) refuse(why, hint string) error {
	for _, probe := range s.probes {
		if probe.Indexed {
			return newFault("expect", why, hint)
		}
	}
	return fault.NotFound.At("bisect", fault.QuoteName(s.Expect)).
		Because(fmt.Sprintf("none of the %d generations that were looked at has this document or passage", len(s.probes))).
		Advise("a key is a path in the corpus; list them at /v1/indexes/" + s.index.Name + "/documents")
}
