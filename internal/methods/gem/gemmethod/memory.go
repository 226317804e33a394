package gemmethod

import (
	"cmp"
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// memory is what the method gem reads of a generation: the questions of its chunks, in one file or more, with the
// vectors that a prompt is compared with; the themes, in one; and the graph with its eigenvectors, in one. Nodes are
// numbers of chunks; behind them summaries, in the order of themes.
type memory struct {
	chunks int // that count
	files  []askedFile
	themes *themes.File // nil: none, as there were too few chunks
	of     []gem.Match  // the questions of summaries

	members   gem.MembersOf    // of summaries, those that count, the largest component first
	inThemes  map[uint32][]int // themes by their members
	summaries gem.Rows         // vectors of their questions
	graph     *memoryGraph
}

// askedFile is a file of questions, with the node of each question; -1 where its chunk does not count.
type askedFile struct {
	*questions.File
	release func()
	of      []gem.Match
}

// close lets go of the files.
func (m *memory) close() {
	for _, file := range m.files {
		file.release()
	}
	if m.graph != nil {
		m.graph.release()
	}
}

// ensureMemory opens what the method gem reads, once. A generation without it is fault.InvalidParam of the field that
// asked for it.
func ensureMemory(ctx context.Context, g *retrieve.Generation, field string) (*memory, error) {
	if g.Manifest.Enrichment(gem.Name) == nil {
		return nil, fault.InvalidParam.At("read query", field).
			Because("generation " + g.Manifest.Generation + " was built without the enrichment gem").
			Advise("add gem to indexes.*.enrich of index " + g.Manifest.Index + " and run: unweaver index; " +
				"a query can use another method")
	}
	return retrieve.OpenPart(g, gem.Name, func() (*memory, func(), error) {
		_, chunks, _ := g.Live.Counts()
		out := &memory{chunks: chunks, members: gem.MembersOf{}, inThemes: map[uint32][]int{}}
		if err := out.openFiles(ctx, g); err != nil {
			out.close()
			return nil, nil, err
		}
		return out, out.close, nil
	})
}

func (m *memory) openFiles(ctx context.Context, g *retrieve.Generation) error {
	cache, index := g.FileSource()
	embedder := questions.Of{Embedder: g.Manifest.Chunk.Digest().String(), Dimension: g.Manifest.Chunk.Dimension}
	open := func(path string) (*questions.File, error) { return questions.Open(path, embedder) }
	for _, segment := range g.Manifest.Segments.FilesOf(gem.Name, questions.Kind) {
		key := index.SegmentKey(segment.SHA256)
		file, release, err := localfile.Acquire(ctx, cache, index.Store, key, segment.SHA256, open)
		if err != nil {
			return err
		}
		asked := askedFile{File: file, release: release}
		_, starts := file.FlatVectors()
		for i := range file.Chunks() {
			node := -1
			if chunk := g.Live.FindChunk(file.Owner(i)); chunk != nil {
				node = int(chunk.Number)
			}
			for q := starts[i]; q < starts[i+1]; q++ {
				asked.of = append(asked.of, gem.Match{Node: node, Question: int(q - starts[i])})
			}
		}
		m.files = append(m.files, asked)
	}
	for _, segment := range g.Manifest.Segments.FilesOf(gem.Name, spectral.Kind) {
		key := index.SegmentKey(segment.SHA256)
		file, release, err := localfile.Acquire(ctx, cache, index.Store, key, segment.SHA256, spectral.Open)
		if err != nil {
			return err
		}
		m.graph = placeGraph(g, file, release)
	}
	if m.graph == nil {
		return fault.SegmentDamage.At("open the memory of generation", g.Manifest.Generation).
			Because("its manifest lists no graph").
			Advise("run: unweaver index --rebuild --index " + g.Manifest.Index)
	}
	for _, segment := range g.Manifest.Segments.FilesOf(gem.Name, themes.Kind) {
		key := index.SegmentKey(segment.SHA256)
		found, err := localfile.Open(ctx, cache, index.Store, key, segment.SHA256, themes.Open)
		if err != nil {
			return err
		}
		if found.Embedder != embedder.Embedder || found.Dimension != embedder.Dimension {
			return fault.SegmentDamage.At("open themes of generation", g.Manifest.Generation).
				Because("a different embedder made their vectors than those of the passages").
				Advise("run: unweaver index --rebuild --index " + g.Manifest.Index)
		}
		m.themes = found
		m.placeThemes(g)
	}
	return nil
}

// placeThemes numbers summaries. A theme none of whose members count any more is none.
func (m *memory) placeThemes(g *retrieve.Generation) {
	m.summaries.Dim = m.themes.Dimension
	for k, theme := range m.themes.Themes {
		node := m.chunks + k
		for _, member := range theme.Members {
			if chunk := g.Live.FindChunk(member.ID()); chunk != nil {
				m.members[node] = append(m.members[node], int(chunk.Number))
				m.inThemes[chunk.Number] = append(m.inThemes[chunk.Number], k)
			}
		}
		if len(m.members[node]) == 0 {
			continue
		}
		for q, question := range theme.Questions {
			m.summaries.Append(question.Vector)
			m.of = append(m.of, gem.Match{Node: node, Question: q})
		}
	}
}

// questionOf returns the text of a question of a node; empty where there is none.
func (m *memory) questionOf(node, question int, id core.ID) string {
	if node >= m.chunks {
		return m.themes.Themes[node-m.chunks].Questions[question].Text
	}
	for _, file := range m.files {
		if i := file.Find(id); i >= 0 {
			_, starts := file.FlatVectors()
			return file.Text(int(starts[i]) + question)
		}
	}
	return ""
}

// comparison is how a prompt is compared with questions.
type comparison struct {
	prompt    []float32
	most      int // nodes that are ranked
	aggregate gem.Aggregate
	summaries bool // count, too
	allow     func(number uint32) bool
	every     []gem.Match // takes the match of each node that is allowed, by node; nil: not wanted
}

// compared are how many questions are compared between two looks at the context.
const compared = 1 << 15

// findNearest compares a prompt with every question of what is allowed, until the context ends. It gives the nodes of
// the best scores, at most most of them and the best first, and, of each summary that is among them, the members by
// score.
func (m *memory) findNearest(ctx context.Context, a comparison) (ranked []gem.Match, members map[int]gem.Match) {
	members = map[int]gem.Match{}
	best := &shortlist{most: a.most}
	found := func(match gem.Match) {
		if a.every != nil {
			a.every[match.Node] = match
		}
	}
	for _, file := range m.files {
		vectors, _ := file.FlatVectors()
		dim := file.DescribeVectors().Dimension
		matches := make([]gem.Match, 0, len(file.of))
		for from := 0; from < len(file.of) && ctx.Err() == nil; from += compared {
			to := min(from+compared, len(file.of))
			rows := gem.Rows{Dim: dim, Data: vectors[from*dim : to*dim]}
			matches = append(matches, gem.Compare(a.prompt, rows, file.of[from:to])...)
		}
		for from := 0; from < len(matches) && ctx.Err() == nil; {
			to := from + 1
			for to < len(matches) && matches[to].Node == matches[from].Node && matches[to].Question > matches[to-1].Question {
				to++
			}
			if node := matches[from].Node; node >= 0 && a.allow(uint32(node)) {
				one := gem.Rank(matches[from:to], a.aggregate, m.members)[0]
				best.add(one)
				found(one)
				if a.summaries && len(m.inThemes[uint32(node)]) > 0 {
					members[node] = one
				}
			}
			from = to
		}
	}
	ranked = best.sortKept()
	if a.summaries {
		for _, one := range gem.Rank(gem.Compare(a.prompt, m.summaries, m.of), a.aggregate, m.members) {
			ranked = append(ranked, one)
			found(one)
		}
	}
	return gem.Rank(ranked, gem.Best, m.members), members
}

// prependThemes puts so many themes before what is ranked, the strongest first.
func (m *memory) prependThemes(themes int, ranked []gem.Match) []gem.Match {
	score := 0.0
	if len(ranked) > 0 {
		score = ranked[0].Score
	}
	var out []gem.Match
	for k, theme := range m.themes.Themes {
		if node := m.chunks + k; len(m.members[node]) > 0 && len(theme.Questions) > 0 && len(out) < themes {
			out = append(out, gem.Match{Node: node, Score: score})
		}
	}
	return append(out, slices.DeleteFunc(ranked, func(match gem.Match) bool {
		return slices.ContainsFunc(out, func(placed gem.Match) bool { return placed.Node == match.Node })
	})...)
}

// liftMembers puts, in the place of each summary, the member that is nearest to the prompt of those that are not before
// it: an answer cites chunks. A summary all of whose members are before it says nothing more, and goes. It says which
// summary brought which chunk.
func (m *memory) liftMembers(ranked []gem.Match, members map[int]gem.Match) (chunks []gem.Match, by map[int]gem.Match) {
	by = map[int]gem.Match{}
	placed := map[int]bool{}
	for _, match := range ranked {
		of := m.members[match.Node]
		if match.Node < m.chunks {
			if !placed[match.Node] {
				placed[match.Node] = true
				chunks = append(chunks, match)
			}
			continue
		}
		var found []gem.Match
		for _, node := range of {
			if member, allowed := members[node]; allowed && !placed[node] {
				found = append(found, member)
			}
		}
		if len(found) == 0 {
			continue
		}
		first := slices.MinFunc(found, inOrder)
		placed[first.Node] = true
		by[first.Node] = match
		chunks = append(chunks, first)
	}
	return chunks, by
}

// shortlist keeps the best matches, at most so many.
type shortlist struct {
	most int
	kept []gem.Match
}

func inOrder(a, b gem.Match) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Node, b.Node))
}

func (s *shortlist) add(match gem.Match) {
	if s.kept = append(s.kept, match); len(s.kept) >= 2*s.most {
		s.kept = s.sortKept()
	}
}

func (s *shortlist) sortKept() []gem.Match {
	slices.SortFunc(s.kept, inOrder)
	return s.kept[:min(s.most, len(s.kept))]
}
