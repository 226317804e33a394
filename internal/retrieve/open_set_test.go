package retrieve_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// put stores what is written as a segment.
func (s shuffled) put(rows int64, write func(io.Writer) error) core.Segment {
	file, err := artifact.NewFile()
	s.check(err)
	defer file.Discard()
	s.check(write(file))
	made, _, err := file.PutSegment(s.t.Context(), s.now.built.Index)
	s.check(err)
	made.Rows = rows
	return made
}

func (s shuffled) putFile(rows int64, path string) core.Segment {
	return s.put(rows, func(to io.Writer) error {
		raw, err := os.ReadFile(path)
		if err == nil {
			_, err = to.Write(raw)
		}
		return err
	})
}

func (s shuffled) putTomb(of core.Segment, unit string, rows []row) core.Tomb {
	return core.Tomb{Of: of.SHA256, Segment: s.put(int64(len(rows)), func(to io.Writer) error {
		return deletions.Write(to, deletions.Of{Segment: of.SHA256, Unit: unit, Rows: len(rows)}, func(i int) bool {
			return rows[i].dead
		})
	})}
}

// manifest returns that of now, with n splits and n runs in place of the original ones.
func (s shuffled) manifest(n int) core.Manifest {
	made := s.cut(n)
	manifest := *s.now.built.Manifest
	segments := &manifest.Segments
	segments.Splits, segments.Runs = nil, nil
	for _, one := range made.splits {
		file := s.putFile(int64(one.expect.Chunks), one.path)
		segments.Splits = append(segments.Splits, core.Split{
			Segment: file, Documents: int64(one.expect.Documents), Chunks: int64(one.expect.Chunks),
			Classes: int64(one.expect.Classes),
		})
		segments.Tombs = append(segments.Tombs, s.putTomb(file, deletions.Documents, one.rows))
	}
	for _, one := range made.runs {
		file := s.putFile(int64(one.expect.Classes), one.path)
		segments.Runs = append(segments.Runs, core.Run{Segment: file})
		segments.Tombs = append(segments.Tombs, s.putTomb(file, deletions.Classes, one.rows))
	}
	for _, side := range []string{core.ChunkSide, core.ClassSide} {
		segments.DeadStats = append(segments.DeadStats, core.DeadStat{Side: side, Segment: s.putFile(0, made.dead[side])})
	}
	return manifest
}

func (s shuffled) open(manifest core.Manifest, cache *localfile.Cache) (*retrieve.Generation, error) {
	sha, err := s.now.built.Index.PutManifest(s.t.Context(), &manifest)
	s.check(err)
	return retrieve.Open(s.t.Context(), s.now.stores.Blobs, cache, s.now.stores.Vectors, "now", sha, 1)
}

func TestAGenerationOfManySegmentsIsOpenedByItsManifest(t *testing.T) {
	folder := t.TempDir()
	cache, err := localfile.New(folder, 0)
	require.NoError(t, err)
	now, old := twoTimes(t, retrievetest.NewStores(t))
	s := shuffled{t, rand.New(rand.NewPCG(5, 5)), now, old}
	manifest := s.manifest(3)
	generation, err := s.open(manifest, cache)
	require.NoError(t, err)
	sameTable(t, generation, now.generation)
	many := opened{now.stores, now.built, generation}
	for _, method := range methods.Registry().ListPlain() {
		for question := range 10 {
			query := now.ask(t, method, question)
			if got, want := renderResult(t, many.run(t, query)), renderResult(t, now.run(t, query)); !slices.Equal(got, want) {
				t.Fatalf("%s:\n%s\nwant\n%s", method, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	for number := range 20 {
		chunk := now.generation.Live.ByNumber(number)
		want, err := now.generation.ReadText(t.Context(), chunk)
		got, gotErr := generation.ReadText(t.Context(), generation.Live.FindChunk(chunk.ID))
		assert.True(t, err == nil && gotErr == nil && got == want,
			"text of chunk %d: %q, want %q, %v, %v", number, got, want, gotErr, err)
	}
	const files = 3 + 3 + 6 + 2 // splits, runs, tombs, dead statistics
	first := mappings(t, folder)
	assert.True(t, first == files+1, "%d files are mapped, want %d", first, files+1) // and the table of the embedder
	manifest.Generation = "g2"                                                       // which has the same segments
	next, err := s.open(manifest, cache)
	require.NoError(t, err)
	assert.Equal(t, first, mappings(t, folder))
	generation.Close()
	sameTable(t, next, now.generation)
	if next.Close(); mappings(t, folder) != 0 {
		t.Errorf("%d files are mapped still", mappings(t, folder))
	}
	var mapped int64
	for _, segment := range manifest.Segments.All() {
		mapped += segment.Bytes
	}
	held := retrieve.EstimateFootprint(&manifest)
	assert.True(t, held >= retrieve.EstimateFootprint(now.built.Manifest) && held <= 2*mapped,
		"%d bytes are held of segments of %d", held, mapped)
}

func TestAManifestWhoseSegmentsDoNotFitIsRefused(t *testing.T) {
	folder := t.TempDir()
	cache, err := localfile.New(folder, 0)
	require.NoError(t, err)
	now, old := twoTimes(t, retrievetest.NewStores(t))
	s := shuffled{t, rand.New(rand.NewPCG(6, 6)), now, old}
	whole := s.manifest(2)
	absent := core.Segment{SHA256: core.Sum("absent").String(), Bytes: 100}
	for name, spoil := range map[string]func(*core.Segments){
		"a split is gone":        func(m *core.Segments) { m.Splits[1].Segment = absent },
		"a split is not listed":  func(m *core.Segments) { m.Splits, m.Tombs = m.Splits[:1], m.Tombs[:1:1] },
		"a run is gone":          func(m *core.Segments) { m.Runs[0].Segment = absent },
		"a tomb is gone":         func(m *core.Segments) { m.Tombs[0].Segment = absent },
		"a tomb is not listed":   func(m *core.Segments) { m.Tombs = m.Tombs[1:] },
		"a tomb is of another":   func(m *core.Segments) { m.Tombs[0].Of, m.Tombs[1].Of = m.Tombs[1].Of, m.Tombs[0].Of },
		"a tomb is there twice":  func(m *core.Segments) { m.Tombs[1] = m.Tombs[0] },
		"a tomb is of nothing":   func(m *core.Segments) { m.Tombs[0].Of = absent.SHA256 },
		"no statistics":          func(m *core.Segments) { m.DeadStats = nil },
		"statistics twice":       func(m *core.Segments) { m.DeadStats[1] = m.DeadStats[0] },
		"statistics of another":  func(m *core.Segments) { m.DeadStats[0].Side, m.DeadStats[1].Side = "classes", "chunks" },
		"more chunks than there": func(m *core.Segments) { m.Splits[0].Chunks++ },
		"fewer classes":          func(m *core.Segments) { m.Runs[0].Rows-- },
	} {
		manifest := whole
		segments := &manifest.Segments
		segments.Splits, segments.Runs = slices.Clone(segments.Splits), slices.Clone(segments.Runs)
		segments.Tombs, segments.DeadStats = slices.Clone(segments.Tombs), slices.Clone(segments.DeadStats)
		spoil(segments)
		for _, before := range []bool{false, true} { // a whole generation is open already, and shares what it has mapped
			var beside *retrieve.Generation
			if before {
				beside, err = s.open(whole, cache)
				require.True(t, err == nil, "%v", err)
			}
			generation, err := s.open(manifest, cache)
			if err == nil {
				generation.Close()
			}
			assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %v", fmt.Sprint(name, ", beside a whole one: ", before), err)
			if before {
				beside.Close()
			}
		}
		assert.Equal(t, 0, mappings(t, folder), "%s", name)
	}
}
