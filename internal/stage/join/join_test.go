package join_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// parent is what a parent generation has.
type parent struct {
	stagetest.Former
	chunks map[core.ID]segments.Chunk
}

func (p parent) FindChunk(id core.ID) (segments.Chunk, bool) {
	found, ok := p.chunks[id]
	return found, ok
}

// newEnv returns the settings of a build that has a parent with other collections.
func newEnv() join.Env {
	env := join.Env{
		Artifacts: artifact.Index{Store: blobmemory.New(), Name: "docs"}, Parent: &core.Manifest{},
		Class: core.Fingerprint{Model: "a"}, Chunk: core.Fingerprint{Model: "b"},
		Collections: core.Collections{Classes: "classes", Chunks: "chunks"},
	}
	env.Spec.Embedding.MaxInputTokens = 20
	return env
}

func TestAWindowOfAUnitHasItsRowsAndNoOther(t *testing.T) {
	env := newEnv()
	stagetest.Chunks(t, env.Artifacts, "s", 3, stagetest.Numbered(7, "Text %d.")...)
	key := join.ChunksKey("s", 3)
	for lo := range 9 {
		for hi := -1; hi < 9; hi++ {
			var got, want []string
			for ref := range musttest.All(t, join.StreamRefs(t.Context(), env.Artifacts.Store, key, lo, hi)) {
				got = append(got, ref.Document)
			}
			for n := lo; n < 7 && (hi < 0 || n < hi); n++ {
				want = append(want, fmt.Sprintf("d%04d.txt", n))
			}
			require.Equal(t, want, got, "[%d, %d)", lo, hi)
		}
	}
	for _, err := range join.StreamRefs(t.Context(), env.Artifacts.Store, "absent", 0, -1) {
		assert.Error(t, err)
	}
}

// What the parent has counts where its row has the very key: of the same text, embedded the same, in the collection
// that this build writes to. A record is shared by all collections.
func TestAClassIsThereWhereTheParentHasTheSame(t *testing.T) {
	env := newEnv()
	made := func(n byte, name string) stagetest.Row {
		class := rows.Reduced{Name: name, Descriptions: []string{"is " + name}}
		return stagetest.Row{Key: string([]byte{n, 15: 0}), Value: string(class.Encode())}
	}
	stagetest.Rows(t, env.Artifacts, "reduced", made(1, "one"), made(2, "two"), made(3, "three"))
	short := rows.Short{Text: "is short", Keys: []core.Digest{core.Sum("paid")}}
	stagetest.Rows(t, env.Artifacts, "short", stagetest.Row{Key: string([]byte{2, 15: 0}), Value: string(short.Encode())})
	join := func(env join.Env) (texts []string, has []bool, former stagetest.Former) {
		former = stagetest.Former{}
		for class := range musttest.All(t, env.JoinClasses(t.Context(), "reduced", "short")) {
			texts, has = append(texts, class.Final), append(has, class.HasVector, class.HasRecord)
			former[class.ID] = segments.Class{Vector: class.Vector.Prefix(), Record: rows.RecordDigest(class.Record)}
			assert.Equal(t, core.ClassRow(class.ID, class.Vector), class.EmbedItem().Key)
			assert.Equal(t, class.ID == core.ID{2}, len(class.Keys) == 1, "what was paid for the text of %s", class.Name)
		}
		return texts, has, former
	}
	texts, has, former := join(env)
	assert.Equal(t, []string{"one: is one", "two: is short", "three: is three"}, texts)
	assert.Equal(t, make([]bool, 6), has, "there is no parent")
	delete(former, core.ID{3})
	env.Table = parent{Former: former}
	_, has, _ = join(env)
	assert.Equal(t, []bool{false, true, false, true, false, false}, has, "another collection")
	env.Parent.Collections = env.Collections
	_, has, _ = join(env)
	assert.Equal(t, []bool{true, true, true, true, false, false}, has)
	env.Class.Model = "other"
	_, has, _ = join(env)
	assert.Equal(t, []bool{false, true, false, true, false, false}, has, "another embedder")
	stagetest.Rows(t, env.Artifacts, "short", stagetest.Row{Key: string([]byte{3, 15: 0}), Value: "damaged"})
	for _, short := range []string{"short", "absent"} {
		var last error
		for _, err := range env.JoinClasses(t.Context(), "reduced", short) {
			last = err
		}
		assert.Error(t, last, "texts that cannot be read are not left out: %s", short)
	}
}

func TestAChunkIsThereWhereTheParentHasTheSame(t *testing.T) {
	env := newEnv()
	shard := stagetest.Shard(t, env.Artifacts, "s", 0, stagetest.Document{Key: "a", Title: "T", Chunks: []string{
		"One text.", strings.Repeat("word ", 200)}})
	refs := join.StreamRefs(t.Context(), env.Artifacts.Store, join.ChunksKey("s", 0), 0, -1)
	read := func(env join.Env) (has []bool, table parent) {
		table.chunks = map[core.ID]segments.Chunk{}
		for chunk := range musttest.All(t, env.JoinChunks(t.Context(), shard, refs)) {
			has = append(has, chunk.HasVector)
			table.chunks[chunk.ID] = segments.Chunk{Digest: chunk.Digest, Windows: len(chunk.Windows)}
			assert.Len(t, chunk.EmbedItems(core.Digest{}), len(chunk.Windows))
			assert.Equal(t, chunk.Ordinal+1, len(chunk.Windows), "%q", chunk.Windows)
			assert.Equal(t, chunk.ID, core.ChunkID("a", chunk.Text, 0))
		}
		return has, table
	}
	has, table := read(env)
	assert.Equal(t, []bool{false, false}, has, "there is no parent")
	env.Table = table
	has, _ = read(env)
	assert.Equal(t, []bool{false, false}, has, "another collection")
	env.Parent.Collections = env.Collections
	has, _ = read(env)
	assert.Equal(t, []bool{true, true}, has)
	parity := env
	parity.Spec.Parity = true
	has, _ = read(parity)
	assert.Equal(t, []bool{false, false}, has, "parity embeds no title")
	for id, chunk := range table.chunks {
		chunk.Windows++
		table.chunks[id] = chunk
	}
	has, _ = read(env)
	assert.Equal(t, []bool{false, false}, has, "rows of other windows")
	other := stagetest.Shard(t, env.Artifacts, "other", 0, stagetest.Numbered(2, "Text %d.")...)
	for _, extract := range []core.Segment{stagetest.Segment(t, env.Artifacts), other.Extract} {
		shard.Extract = extract
		for _, err := range env.JoinChunks(t.Context(), shard, refs) {
			musttest.Fail(t, err, fault.SegmentDamage, "does not follow the chunks of unit 0")
		}
	}
}

func TestAnEndedRowIsReadAsItWasWritten(t *testing.T) {
	want := join.Ended{Place: segments.Place{Segment: 2, Row: 1 << 20}, Text: "a text"}
	raw := want.Encode()
	assert.Equal(t, want, musttest.Get(join.DecodeEnded(raw))(t))
	for end := range raw {
		assert.Error(t, musttest.Err(join.DecodeEnded(raw[:end])), "%d bytes", end)
	}
	assert.Error(t, musttest.Err(join.DecodeEnded(append(raw, 0))), "and a byte more")
}
