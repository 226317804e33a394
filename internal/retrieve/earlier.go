package retrieve

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/answers"
	"github.com/unweaver/unweaver/internal/model/triples"
)

// Bounds of what a question looks at, however many answers were kept before it.
const (
	mostLooked  = 16 // of the answers whose questions are near enough
	mostEarlier = 3  // of those that are told
	mostSupport = 3  // edges that are kept of a triple
)

// States of an earlier answer.
const (
	EarlierTold        = "told"
	EarlierNoRoom      = "no_room"     // facts_budget is spent
	EarlierExpired     = "expired"     // a document that it rests on changed, is gone, or is not let in by the query
	EarlierUnsupported = "unsupported" // no edge of the generation that the query lets in supports it any more
)

// APREarlier is an answer to an earlier question that is like this one. It is no source: what it said is told in a
// channel of its own, and never among facts.
type APREarlier struct {
	Origin     string             `json:"origin" enum:"answer"`
	Question   string             `json:"question"`
	Generation string             `json:"generation"`
	Similarity float64            `json:"similarity"`
	State      string             `json:"state" enum:"told,no_room,expired,unsupported"`
	Triples    []APREarlierTriple `json:"triples"` // that are told; none where it is not
}

// APREarlierTriple is what an earlier answer said.
type APREarlierTriple struct {
	Head      string `json:"head"`
	Relation  string `json:"relation"`
	Tail      string `json:"tail"`
	Supported bool   `json:"supported"` // by an edge of the generation
}

// Earlier is what is known of earlier answers when a question is asked.
type Earlier struct {
	Answers []answers.Answer
	Shared  bool // others than who asks wrote them: of what they said only that is told which is supported itself
}

// Echo is what a response tells of earlier answers; the zero value tells nothing.
type Echo struct {
	Words   []apr.Word
	Sources []answers.Source // that they rest on
}

// earlierAnswers are those whose questions are near, the nearest first, with what holds of them in this generation.
func (r *Request) earlierAnswers(index *apr.Index) (
	out []APREarlier, told apr.Earlier, rest []answers.Source, err error,
) {
	type near struct {
		answer answers.Answer
		cosine float64
	}
	var all []near
	fingerprint := r.Generation.Manifest.Class.Digest()
	for _, answer := range r.Query.Earlier.Answers {
		if answer.Embedder != fingerprint || len(answer.Vector) != len(r.Query.Vector) || len(answer.Vector) == 0 {
			continue // of another embedder: nothing tells how near it is
		}
		cosine := 0.0
		for i, x := range answer.Vector {
			cosine += float64(x) * float64(r.Query.Vector[i])
		}
		if cosine >= apr.AnswersFrom {
			all = append(all, near{answer, cosine})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(b.cosine, a.cosine), b.answer.At.Compare(a.answer.At))
	})
	all = all[:min(len(all), mostLooked)]
	var support []apr.Word
	for _, one := range all {
		for _, triple := range one.answer.Triples {
			for _, edge := range triple.Support {
				support = append(support, edge.Word.Word())
			}
		}
	}
	edges := index.EdgesOf(support)
	holding := 0
	for _, one := range all {
		if holding == mostEarlier {
			break
		}
		shown := APREarlier{
			Origin: answers.Origin, Question: one.answer.Question, Generation: one.answer.Generation,
			Similarity: one.cosine, Triples: []APREarlierTriple{},
		}
		holds, err := r.rests(one.answer)
		if err != nil {
			return nil, apr.Earlier{}, nil, err
		}
		if shown.State = EarlierExpired; holds {
			shown.Triples = r.supported(index, edges, one.answer)
			shown.State = EarlierUnsupported
		}
		if len(shown.Triples) > 0 {
			shown.State = EarlierTold
			told.Score = max(told.Score, one.cosine)
			for _, triple := range shown.Triples {
				told.Words = append(told.Words, apr.Word{Head: triple.Head, Relation: triple.Relation, Tail: triple.Tail})
			}
			rest = append(rest, one.answer.Sources...)
			holding++
		}
		out = append(out, shown)
	}
	return out, told, rest, nil
}

// rests tells whether all that an answer rests on is in the generation as it was, and let in by the query.
func (r *Request) rests(answer answers.Answer) (bool, error) {
	for _, source := range answer.Sources {
		place := r.Generation.Live.Document(source.Document)
		if place < 0 {
			return false, nil
		}
		for _, id := range source.Chunks {
			if chunk := r.Generation.Live.Chunk(id); chunk == nil || int(chunk.Document) != place || !r.Allows(chunk) {
				return false, nil
			}
		}
		document, err := r.Generation.Document(r.ctx, place)
		if err != nil || document.Version != source.Version {
			return false, err
		}
	}
	return len(answer.Sources) > 0, nil
}

// supported are the triples of an answer that may be told; none where no edge supports any of them.
func (r *Request) supported(index *apr.Index, edges map[apr.Word]uint32, answer answers.Answer) []APREarlierTriple {
	var out []APREarlierTriple
	any := false
	for _, triple := range answer.Triples {
		one := APREarlierTriple{Head: triple.Head, Relation: triple.Relation, Tail: triple.Tail}
		for _, support := range triple.Support {
			edge, there := edges[support.Word.Word()]
			if there && support.Cosine >= apr.SupportAt && len(r.citedBy(index, edge)) > 0 {
				one.Supported, any = true, true
			}
		}
		if one.Supported || !r.Query.Earlier.Shared {
			out = append(out, one)
		}
	}
	if !any {
		return []APREarlierTriple{}
	}
	return out
}

// Supporting is what of a generation supports lines.
type Supporting struct {
	Triples []answers.Triple // of each line, its support: none where nothing does
	Sources []answers.Source // that say what supports them
}

// Support finds what of a generation supports the triples of an answer, whose lines have these vectors: among what the
// query lets in. fault.InvalidParam: the generation has no facts.
func (g *Generation) Support(
	ctx context.Context, query Query, said []triples.Triple, lines [][]float32,
) (Supporting, error) {
	var out Supporting
	index, err := g.Facts(ctx)
	if err != nil {
		return out, err
	}
	allowed := g.allow(query)
	sayer := func(edge uint32) *liveset.Chunk {
		for _, source := range index.Cite([]uint32{edge}) {
			if chunk := g.Live.Chunk(chunkOf(source)); chunk != nil && allowed.chunk(chunk) {
				return chunk
			}
		}
		return nil
	}
	found, err := index.Support(ctx, lines, mostSupport, func(edge uint32) bool { return sayer(edge) != nil })
	if err != nil {
		return out, err
	}
	var chunks []core.ID
	for i, triple := range said {
		one := answers.Triple{Word: answers.Word{Head: triple.Head, Relation: triple.Relation, Tail: triple.Tail}}
		for _, support := range found[i] {
			head, relation, tail := index.Words(support.Edge)
			one.Support = append(one.Support, answers.Support{
				Word: answers.Word{Head: head, Relation: relation, Tail: tail}, Cosine: support.Cosine,
			})
			chunks = append(chunks, sayer(support.Edge).ID)
		}
		out.Triples = append(out.Triples, one)
	}
	out.Sources, err = g.SourcesOf(ctx, chunks)
	return out, err
}

// SourcesOf gives the documents that chunks are of, in their versions, in the order of the chunks.
func (g *Generation) SourcesOf(ctx context.Context, chunks []core.ID) ([]answers.Source, error) {
	var out []answers.Source
	for _, id := range chunks {
		chunk := g.Live.Chunk(id)
		if chunk == nil {
			continue
		}
		document, err := g.Document(ctx, int(chunk.Document))
		if err != nil {
			return nil, err
		}
		out = append(out, answers.Source{
			Document: g.Live.Key(int(chunk.Document)), Version: document.Version, Chunks: []core.ID{id},
		})
	}
	return answers.Joined(out), nil
}

// earlierHead begins what a prompt tells of earlier answers.
const earlierHead = "answers (what was answered earlier to questions like this one, as head | relation | tail: " +
	"nobody has proven it and it is no source, so never cite it; where a passage says otherwise the passage holds)"

// EarlierText is the channel of a prompt that tells what earlier answers said; empty: they said nothing.
func EarlierText(words []apr.Word) string {
	if len(words) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(earlierHead)
	for _, word := range words {
		out.WriteString("\n" + word.Head + " | " + word.Relation + " | " + word.Tail)
	}
	return out.String()
}
