package retrieve

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
	"github.com/unweaver/unweaver/internal/text/names"
)

// What chooses the setting of an index, and bounds of titles (docs/explain/retrieval.md, Setting by index).
const (
	linkedFrom    = 0.1  // least share of documents that name another by its title
	longFrom      = 500  // least mean of tokens a chunk
	titlesSampled = 1000 // documents that are looked at: the share is known to a point

	longestTitle  = 10  // words of the question that can be one title
	questionWords = 200 // the first of the question that can be in a title
	mostTitled    = 3   // documents of one title; of more, none is named
	mostMentioned = 300 // chunks that mention a title; of more, none leads to it
	mostSteps     = 5   // titles that one chunk leads to
)

// measureTitles returns the share of documents whose first chunk names another document by its title, of a sample that
// is even in the order of keys. What is live decides alone: nights and merges measure what a build from nothing does.
func measureTitles(live *liveset.Set) float64 {
	documents, _, _ := live.Counts()
	looked, naming := 0, 0
	for document := 0; document < documents; document += max(1, documents/titlesSampled) {
		row := live.DocumentAt(document)
		looked++
		if row.Count > 0 && slices.ContainsFunc(live.Graph.ClassesOf(row.Chunks), func(class uint32) bool {
			return len(titledElsewhere(live, class, row.Chunks, nil)) > 0
		}) {
			naming++
		}
	}
	return float64(naming) / float64(max(1, looked))
}

// chooseKind returns what sort of index it is, by which fuse.For chooses.
func (g *Generation) chooseKind() string {
	switch {
	case g.titlesNamed >= linkedFrom:
		return fuse.Linked
	case g.tokensPerChunk() >= longFrom:
		return fuse.Long
	}
	return fuse.Short
}

func (g *Generation) tokensPerChunk() int64 {
	return g.Manifest.Counts.Tokens / max(1, g.Manifest.Counts.Chunks)
}

// newTitles returns what the question and the chunks that it finds name by title.
func (r *Request) newTitles(params fuse.Params, classes *wordScores) fuse.Titles {
	return fuse.Titles{Asked: r.titlesAsked(), Named: func(chunk uint32) []walk.Weighted {
		return r.titlesIn(chunk, func(class uint32) float64 { return params.ClassFloor + classes.shareOf(class) })
	}}
}

// titlesAsked lists chunks of the documents whose whole title stands in the question, as names are written: two words
// or more, the first with a capital letter or a digit. Of titles that overlap the first counts, and the longest.
func (r *Request) titlesAsked() []uint32 {
	var out []uint32
	words := strings.Fields(r.Query.Text)
	words = words[:min(len(words), questionWords)]
	for at := 0; at < len(words); at++ {
		if first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(words[at], unicode.IsPunct)); !unicode.IsUpper(first) &&
			!unicode.IsDigit(first) {
			continue
		}
		for end := min(len(words), at+longestTitle); end > at+1; end-- {
			if chunks := r.titledBy(strings.Join(words[at:end], " ")); len(chunks) > 0 {
				out, at = append(out, chunks...), end-1
				break
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// titledBy lists chunks of the documents of a title, which may stand in the genitive.
func (r *Request) titledBy(title string) []uint32 {
	key := names.Key(title, false)
	for _, form := range []string{key, strings.TrimSuffix(key, "'s")} {
		id := core.ClassID(r.Generation.Manifest.Aliases.ResolveKey(form))
		if place := r.Generation.Live.ClassPlace(id); place >= 0 && !r.Query.Without.Entities[id] {
			if chunks := listTitled(r.Generation.Live, uint32(place), r.allowed.testNumbers()); len(chunks) > 0 {
				return chunks
			}
		}
	}
	return nil
}

// listTitled lists the first chunk of each document whose title a class is, of those that are allowed.
func listTitled(live *liveset.Set, class uint32, allows func(chunk uint32) bool) (out []uint32) {
	id, last := live.ClassID(class), -1
	for _, chunk := range live.Graph.ChunksOf(class) {
		document := int(live.DocumentOf(chunk))
		if document == last || !live.Title(document).HasClass(id) || (allows != nil && !allows(chunk)) {
			continue
		}
		if len(out) == mostTitled {
			return nil
		}
		out, last = append(out, chunk), document
	}
	if len(out) > 0 && !strings.Contains(live.Name(int(live.ClassAt(class).Name)), " ") {
		return nil
	}
	return out
}

// titledElsewhere returns what listTitled returns, without documents that have the title of the chunk's own.
func titledElsewhere(live *liveset.Set, class, chunk uint32, allows func(chunk uint32) bool) []uint32 {
	if n := len(live.Graph.ChunksOf(class)); n < 2 || n > mostMentioned {
		return nil
	}
	own := live.Title(int(live.DocumentOf(chunk)))
	return slices.DeleteFunc(listTitled(live, class, allows), func(other uint32) bool {
		return live.Title(int(live.DocumentOf(other))) == own
	})
}

// titlesIn lists the chunks of other documents whose titles a chunk names, with the weight of the step to the class of
// each title, the heaviest first.
func (r *Request) titlesIn(chunk uint32, weight func(class uint32) float64) []walk.Weighted {
	live, allows := r.Generation.Live, r.allowed.testNumbers()
	var out []walk.Weighted
	for _, class := range live.Graph.ClassesOf(chunk) {
		if r.Query.Without.Entities[live.ClassID(class)] {
			continue
		}
		for _, other := range titledElsewhere(live, class, chunk, allows) {
			out = append(out, walk.Weighted{ID: other, Weight: weight(class)})
		}
	}
	slices.SortStableFunc(out, func(a, b walk.Weighted) int { return cmp.Compare(b.Weight, a.Weight) })
	return out[:min(len(out), mostSteps)]
}
