package segment_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// passage is a line of the recorded corpus with its extraction.
type passage struct {
	ID, Title, Text string
	Entities        []struct{ Name, Description string }
}

func lines(b *testing.B, path string, each func(raw []byte)) {
	b.Helper()
	file, err := os.Open(path)
	require.NoError(b, err)
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		each(scanner.Bytes())
	}
}

func passages(b *testing.B) []passage {
	b.Helper()
	folder := os.Getenv("UNWEAVER_BENCH_MUSIQUE")
	if folder == "" {
		folder = "../../../testdata/musique"
	}
	var out []passage
	places := map[string]int{}
	lines(b, filepath.Join(folder, "corpus.jsonl"), func(raw []byte) {
		var one passage
		require.NoError(b, json.Unmarshal(raw, &one))
		places[one.ID] = len(out)
		out = append(out, one)
	})
	lines(b, filepath.Join(folder, "extractions_desc.jsonl"), func(raw []byte) {
		var one struct {
			Chunk    string `json:"chunk_id"`
			Entities []struct{ Name, Description string }
		}
		require.NoError(b, json.Unmarshal(raw, &one))
		if place, known := places[one.Chunk]; known {
			out[place].Entities = one.Entities
		}
	})
	slices.SortFunc(out, func(a, b passage) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// BenchmarkBytesOfSegments writes a split and a class run of MuSiQue's passages with their recorded extractions, and
// logs the bytes of each section a chunk, and of postings a posting: of the sample in this repository, or of a folder
// that UNWEAVER_BENCH_MUSIQUE names.
func BenchmarkBytesOfSegments(b *testing.B) {
	all := passages(b)
	var splitOut, runOut bytes.Buffer
	for b.Loop() {
		splitOut.Reset()
		runOut.Reset()
		writeSegments(b, all, &splitOut, &runOut)
	}
	var summary strings.Builder
	b.ReportMetric(float64(splitOut.Len())/float64(len(all)), "split-B/chunk")
	b.ReportMetric(float64(runOut.Len())/float64(len(all)), "run-B/chunk")
	for _, one := range []struct {
		kind, side string
		version    int
		raw        []byte
	}{
		{split.Kind, split.Side, split.Version, splitOut.Bytes()},
		{classrun.Kind, classrun.Side, classrun.Version, runOut.Bytes()},
	} {
		path := filepath.Join(b.TempDir(), one.kind)
		require.NoError(b, os.WriteFile(path, one.raw, 0o600))
		file, err := mapped.Open(path, one.kind, one.version)
		require.NoError(b, err)
		defer file.Close()
		var meta struct{ Words postings.Stats }
		require.NoError(b, json.Unmarshal(file.Bytes("stats"), &meta))
		terms, held, words := 0, 0, 0
		for _, list := range postings.Open(file, one.side, meta.Words).Lists() {
			terms, held = terms+1, held+list.Len()
		}
		for _, section := range file.Sections() {
			size := len(file.Bytes(section))
			fmt.Fprintf(&summary, "%s %s %d (%.1f); ", one.kind, section, size, float64(size)/float64(len(all)))
			if strings.HasPrefix(section, one.side) && section != one.side+"len" && !strings.Contains(section, "dict") {
				words += size
			}
		}
		fmt.Fprintf(&summary, "%s: %d terms, %d postings. ", one.kind, terms, held)
		b.ReportMetric(float64(words)/float64(held), one.kind+"-B/posting")
	}
	b.Log(summary.String())
}

func writeSegments(b *testing.B, all []passage, splitOut, runOut io.Writer) {
	b.Helper()
	documents, classes := split.NewWriter(), classrun.NewWriter()
	defer documents.Close()
	defer classes.Close()
	must := func(err error) {
		require.NoError(b, err)
	}
	type class struct {
		row  classrun.Row
		name string
		text []string
	}
	found := map[string]*class{}
	for i := range all {
		one := &all[i]
		id := core.ChunkID(one.ID, one.Text, 0)
		must(documents.BeginDocument(split.Row{Key: one.ID}))
		var mentioned []core.ID
		for _, entity := range one.Entities {
			key := names.Key(entity.Name, false)
			if found[key] == nil {
				row := classrun.Row{ID: core.ClassID(key)}
				row.Vector, row.Record = core.Sum("vector", key).Prefix(), core.Sum("record", key)
				found[key] = &class{row: row, name: key, text: []string{entity.Name}}
			}
			found[key].text = append(found[key].text, entity.Description)
			mentioned = append(mentioned, found[key].row.ID)
		}
		chunk := split.Chunk{
			ID: id, Digest: core.Sum(one.Text), End: uint32(len(one.Text)), Tokens: uint32(len(one.Text) / 4), Windows: 1,
		}
		must(documents.AddChunk(chunk, text.Terms(embed.ChunkText(one.Title, one.Text))))
		for n, class := range mentioned {
			must(documents.AddMention(class, uint32(i), n))
		}
	}
	for _, one := range slices.SortedFunc(maps.Values(found), func(a, b *class) int {
		return bytes.Compare(a.row.ID[:], b.row.ID[:])
	}) {
		must(classes.Add(one.row, one.name, text.SurfaceWords(strings.Join(one.text, " "))))
	}
	_, err := documents.Write(splitOut, text.Analyser, "en")
	must(err)
	_, err = classes.Write(runOut, text.Analyser, "en")
	must(err)
}
