package plan

import (
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// mostRanges is how many ranges of a corpus are listed at once. A listing waits for its store alone: one request of
// 1,000 keys after the other took minutes at 2 million objects.
const mostRanges = 16

// leastRange is how many documents of the parent a range holds at least: two requests of an object store, so that
// finding where to cut, which is one, pays for itself. A variable so that tests cut small corpora.
var leastRange int64 = 2000

// keyRange is a range of a listing; see blob.Store.ListRange.
type keyRange struct{ prefix, after, until string }

// findRanges returns what is to be listed: the whole corpus, or each object of In.Hinted, and its metadata, by name. A
// listing says what a name is, so that one which no object can have is one that is not there. Where links are followed
// the corpus is listed all the same: which of two links to one folder counts, a listing alone says.
func (p *planner) findRanges(ctx context.Context) (ranges []keyRange, err error) {
	if p.Hinted == nil || p.Spec.FollowLinks {
		cuts, err := p.findCuts(ctx)
		after := ""
		for _, until := range append(cuts, "") {
			ranges, after = append(ranges, keyRange{"", after, until}), until
		}
		return ranges, err
	}
	p.hinted = map[string]bool{}
	for _, key := range p.Hinted {
		key = strings.TrimSuffix(key, document.SidecarSuffix)
		if p.hinted[key] || key == "" || strings.HasSuffix(key, "/") { // the marker of a folder, which no listing has
			continue
		}
		p.hinted[key] = true
		for _, name := range []string{key, key + document.SidecarSuffix} {
			ranges = append(ranges, keyRange{prefix: name, until: name})
		}
	}
	return ranges, nil
}

// checkCorpus refuses to take objects for removed where the corpus has none at all: a folder that is not mounted would
// look the same. A listing of hinted objects alone does not say so.
func (p *planner) checkCorpus(ctx context.Context) error {
	switch {
	case p.listed > 0 || p.hinted == nil && p.Parent != nil && len(p.broken) > 0:
		return nil
	case p.hinted == nil:
		return p.emptyFault()
	}
	for info, err := range p.Corpus.List(ctx, "", "") {
		if err != nil && info.Key == "" {
			return err
		}
		return nil
	}
	return p.emptyFault()
}

// findCuts gives keys of objects between which the corpus is listed side by side, in order. They are taken from the
// parent's documents, of which they cut about equal parts: where a corpus grew at one end, that range takes longer.
// Where they lie changes nothing else, as ranges that follow one another hold every object once, whatever is between
// them. A first build has none.
//
// Nor has a corpus whose links are followed: which of two links to one folder counts depends on all that comes before
// them, so that each range would walk the whole.
func (p *planner) findCuts(ctx context.Context) ([]string, error) {
	if p.Parent == nil || p.Spec.FollowLinks {
		return nil, nil
	}
	segments := p.Parent.Segments.Documents
	begins := make([]int64, len(segments)+1) // rows before each segment
	for i, segment := range segments {
		begins[i+1] = begins[i] + max(0, segment.Rows)
	}
	total := begins[len(segments)]
	parts := min(total/leastRange, mostRanges)
	if parts < 2 {
		return nil, nil
	}
	wanted := make([][]int64, len(segments)) // rows of each segment, counted from its first
	var asked []int
	for i := range parts - 1 {
		row := total / parts * (i + 1)
		at, exact := slices.BinarySearch(begins, row)
		if !exact {
			at-- // the segment that the row lies in; an exact one begins with it
		}
		if wanted[at] == nil {
			asked = append(asked, at)
		}
		wanted[at] = append(wanted[at], row-begins[at])
	}
	found := make([][]string, len(asked))
	err := parallel.Each(ctx, len(asked), mostRanges, func(ctx context.Context, i int) error {
		segment := segments[asked[i]]
		key := p.Artifacts.SegmentKey(segment.SHA256)
		reader, err := artifact.OpenRowsOf(ctx, p.Artifacts.Store, key, segment.Bytes)
		if err != nil {
			return err
		}
		for _, row := range wanted[asked[i]] {
			found[i] = append(found[i], core.ObjectOf(frameAt(reader, row)))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	cuts := slices.Concat(found...)
	slices.Sort(cuts) // documents are sorted by their own keys, in which some signs of an object's are encoded
	cuts = slices.Compact(cuts)
	return slices.DeleteFunc(cuts, func(key string) bool { return key == "" }), nil
}

// frameAt returns the first key of the frame that a row of a file lies in; none has an empty one.
func frameAt(reader *artifact.Reader, row int64) string {
	for _, frame := range reader.Frames {
		if row -= frame.Rows; row < 0 {
			return frame.First
		}
	}
	return ""
}
