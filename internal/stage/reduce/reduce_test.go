package reduce_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/stream/spill"
)

type mention struct {
	key string
	rows.Mention
}

// shard writes a sorted mention file.
func shard(t *testing.T, art artifact.Index, name string, ms []mention) {
	t.Helper()
	var sorter spill.Sorter
	defer sorter.Close()
	for _, m := range ms {
		id := corpus.ClassID(m.key)
		sorter.Add(id[:], m.Encode())
	}
	w, err := artifact.NewRows()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	for kv, err := range sorter.Sorted() {
		if err != nil {
			t.Fatal(err)
		}
		w.Append(string(kv[0]), kv[1])
	}
	if err := w.Scratch(t.Context(), art.Store, name); err != nil {
		t.Fatal(err)
	}
}

func store(t *testing.T) artifact.Index {
	t.Helper()
	s, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return artifact.Index{Store: s, Name: "i"}
}

func spec(sample int) corpus.Spec {
	return corpus.Spec{Index: "i", Shortening: corpus.Shortening{Threshold: 4000, Sample: sample}}
}

// all reduces every partition and reads the classes back.
func all(
	t *testing.T,
	art artifact.Index,
	sp corpus.Spec,
	partitions int,
	shards ...reduce.Shard,
) (map[corpus.ID]rows.Reduced, corpus.Digest) {
	t.Helper()
	out := map[corpus.ID]rows.Reduced{}
	var sum corpus.SetHash
	for p := range partitions {
		scratch := fmt.Sprintf("s%d", partitions)
		res, err := reduce.Run(
			t.Context(),
			reduce.In{
				Spec:       sp,
				Artifacts:  art,
				Scratch:    scratch,
				Shards:     shards,
				Partition:  p,
				Partitions: partitions,
				OnProgress: func(int64) {},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		sum.Merge(res.Content)
		for row, err := range artifact.ScanAll(t.Context(), art.Store, reduce.Key(scratch, p)) {
			if err != nil {
				t.Fatal(err)
			}
			reduced, err := rows.DecodeReduced(row.Value)
			if err != nil {
				t.Fatal(err)
			}
			out[corpus.ID(row.Key)] = reduced
		}
	}
	return out, sum.Digest()
}

func chunk(n int) corpus.ID { return corpus.ChunkID("d", fmt.Sprint(n), 0) }

func TestMentionsOfOneNameBecomeOneClassInChunkOrder(t *testing.T) {
	art := store(t)
	shard(t, art, "a", []mention{
		{"bohr", rows.Mention{Chunk: chunk(0), Number: 0, Position: 0, Surface: "Bohr", Description: "A physicist."}},
		{"bohr", rows.Mention{Chunk: chunk(0), Number: 0, Position: 3, Surface: "BOHR", Description: "Twice here."}},
		{"dane", rows.Mention{Chunk: chunk(1), Number: 1, Position: 0, Surface: "Dane"}},
	})
	shard(
		t,
		art,
		"b",
		[]mention{
			{
				"bohr",
				rows.Mention{Chunk: chunk(2), Number: 0, Position: -1, Surface: "Bohr", Description: "From Denmark."},
			},
		},
	)
	cs, sum := all(t, art, spec(256), 1, reduce.Shard{Key: "a"}, reduce.Shard{Key: "b", Base: 2})
	b := cs[corpus.ClassID("bohr")]
	if len(cs) != 2 || b.Name != "Bohr" || b.Mentions != 3 || b.ChunkTotal != 2 ||
		fmt.Sprint(b.Descriptions) != "[A physicist. Twice here. From Denmark.]" ||
		fmt.Sprint(b.Chunks) != fmt.Sprint([]corpus.ID{chunk(0), chunk(2)}) {
		t.Errorf("%d classes, %+v", len(cs), b)
	}
	for _, p := range []int{2, 16, 256} {
		if got, s := all(t, art, spec(256), p, reduce.Shard{Key: "a"}, reduce.Shard{Key: "b", Base: 2}); s != sum ||
			len(got) != 2 {
			t.Errorf("%d partitions: %d classes, hash %s, want %s", p, len(got), s, sum)
		}
	}
}

// A class of 200,000 mentions is streamed: what is held does not follow its size (docs/invariants.md, 7), and its text is made
// from a sample that a new mention hardly ever changes.
func TestAHugeClassIsStreamed(t *testing.T) {
	art := store(t)
	var shards []reduce.Shard
	const per, n = 20_000, 10
	for k := range n {
		ms := make([]mention, per)
		for i := range ms {
			ms[i] = mention{
				"hub",
				rows.Mention{
					Chunk:    chunk(k*per + i),
					Number:   int64(i),
					Document: "d",
					Surface:  "Hub",
					Description: fmt.Sprintf(
						"Description %d of the hub, which is long enough to be worth something.",
						k*per+i,
					),
				},
			}
		}
		key := fmt.Sprint("shard", k)
		shard(t, art, key, ms)
		shards = append(shards, reduce.Shard{Key: key, Base: int64(k * per)})
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cs, _ := all(t, art, spec(256), 1, shards...)
	runtime.ReadMemStats(&after)
	hub := cs[corpus.ClassID("hub")]
	if hub.Mentions != per*n || hub.ChunkTotal != per*n || len(hub.Descriptions) != 256 ||
		len(hub.Chunks) != rows.MaxRecordChunks {
		t.Fatalf(
			"%d mentions, %d chunks, %d descriptions, %d listed",
			hub.Mentions,
			hub.ChunkTotal,
			len(hub.Descriptions),
			len(hub.Chunks),
		)
	}
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	shard(
		t,
		art,
		"one more",
		[]mention{
			{"hub", rows.Mention{Chunk: chunk(-1), Surface: "Hub", Description: "A new description of the hub."}},
		},
	)
	more, _ := all(t, art, spec(256), 1, append(shards, reduce.Shard{Key: "one more", Base: per * n})...)
	kept := 0
	old := map[string]bool{}
	for _, d := range hub.Descriptions {
		old[d] = true
	}
	for _, d := range more[corpus.ClassID("hub")].Descriptions {
		if old[d] {
			kept++
		}
	}
	if kept < 255 {
		t.Errorf("one new mention replaced %d of 256 sampled descriptions", 256-kept)
	}
}
