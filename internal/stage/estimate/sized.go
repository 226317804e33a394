package estimate

import (
	"math"

	"github.com/unweaver/unweaver/internal/core"
)

// Sized is what is known of a build whose listing has been compared with its parent, and of whose documents none has
// been read: how many are made, and how much text their sizes let expect. Where the parent has a document, its own
// share of text counted.
type Sized struct {
	Documents int64 // that are made
	Added     int64 // of them, those that the parent does not have in any form
	Removed   int64 // documents of the parent that are not in the listing
	Text      int64 // bytes that are expected of those that are made
	Again     bool  // all are made, for another reason than what is in them: all may be paid for
	Chunking  core.Chunking
	Parent    core.Counts // zero: none
}

// What is expected of a text by its size is off by this much: letters of several bytes, marks of a format.
const (
	textLess, textMore = 0.7, 1.4

	// leastShare is the smallest chunk that a text is cut into, as a share of the largest.
	leastShare = 400.0 / 1500
)

// Tokens of the text that is made.
func (s Sized) Tokens() Range {
	tokens := float64(s.Text) / runesPerToken
	return Range{int64(textLess * tokens), ceil(textMore * tokens)}
}

// Chunks of the documents that are made: those of the parent, by their size, or what its chunking lets expect. A
// document has at least one.
func (s Sized) Chunks() Range {
	if s.Documents == 0 {
		return Range{}
	}
	tokens, largest := s.Tokens(), float64(max(s.Chunking.MaxTokens, 1))
	out := Range{s.Documents, s.Documents}
	switch {
	case s.Chunking.Strategy == "document":
	case s.Parent.Chunks > 0 && s.Parent.Tokens > 0:
		each := float64(s.Parent.Tokens) / float64(s.Parent.Chunks)
		out = Range{int64(float64(tokens.Low) / each), ceil(float64(tokens.High) / each)}
	case s.Chunking.Strategy == "fixed":
		each := max(largest-float64(s.Chunking.Overlap), 1)
		out = Range{int64(float64(tokens.Low) / each), s.Documents + ceil(float64(tokens.High)/each)}
	default:
		out = Range{
			int64(float64(tokens.Low) / largest), s.Documents + ceil(float64(tokens.High)/(leastShare*largest)),
		}
	}
	return Range{max(out.Low, s.Documents), max(out.High, s.Documents)}
}

// Unread are those of the chunks that nobody has paid for: all of them where there is no parent; of what is made
// again perhaps none; else those of new documents at least, as a changed one may have the chunks that it had.
func (s Sized) Unread() Range {
	chunks := s.Chunks()
	switch {
	case s.Parent.Chunks == 0:
	case s.Again:
		chunks.Low = 0
	default:
		chunks.Low = min(s.Added, chunks.High)
	}
	return chunks
}

// Gone are the chunks of the parent that are left out, at most.
func (s Sized) Gone() int64 {
	if s.Parent.Documents == 0 || s.Again {
		return 0
	}
	each := float64(s.Parent.Chunks) / float64(s.Parent.Documents)
	return min(ceil(each*float64(s.Documents-s.Added+s.Removed)), s.Parent.Chunks)
}

// ShortenSized is Shorten where the parent's classes are not looked at. At most each new mention, and each that goes,
// is of a long class, and has two of its blocks and the whole made again; but not more than all long texts take, which
// the most expensive of the earlier runs tells, and the size of the parent.
func ShortenSized(in ShortenIn, past Past) Task {
	if !in.Paid {
		return Task{}
	}
	if in.Parent.Chunks == 0 || in.Again {
		in.Parent = core.Counts{}
		return in.first()
	}
	_, mentions := rates(in.Parent, in.New)
	changed := 3 * mentions * float64(in.New.Chunks+in.New.Gone)
	whole := in
	whole.New = New{Chunks: in.Parent.Chunks, Tokens: in.Parent.Tokens}
	all := float64(whole.first().Calls.High)
	for _, run := range past {
		all = max(all, pastMore*float64(run.Calls.Shorten)*max(1, float64(in.New.Chunks)/float64(max(run.Chunks, 1))))
	}
	return in.priced(0, min(changed, all), blockRunes)
}

// Between is a range of a task whose ends were estimated apart.
func Between(least, most Task) Task {
	over := func(low, high Range) Range { return Range{min(low.Low, high.High), high.High} }
	return Task{
		Calls: over(least.Calls, most.Calls), Prompt: over(least.Prompt, most.Prompt),
		Completion: over(least.Completion, most.Completion),
	}
}

// Middle of a range by ratio: as many times the one as it is of the other.
func (r Range) Middle() int64 {
	return int64(math.Round(math.Sqrt(float64(max(r.Low, 1)) * float64(r.High))))
}
