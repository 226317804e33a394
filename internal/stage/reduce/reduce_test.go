package reduce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

type mention struct {
	key string
	rows.Mention
}

// shard writes a sorted mention file.
func shard(t testing.TB, art artifact.Index, name string, ms []mention) {
	var sorter extsort.Sorter
	defer sorter.Close()
	for _, m := range ms {
		id := core.ClassID(m.key)
		sorter.Add(id[:], m.Encode())
	}
	w := stagetest.Must(artifact.NewRows())
	defer w.Discard()
	for kv := range musttest.All(t, sorter.StreamSorted()) {
		w.Append(string(kv[0]), kv[1])
	}
	require.NoError(t, w.StoreScratch(t.Context(), art.Store, name))
}

func store(t *testing.T) artifact.Index {
	return artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}
}

func spec(sample int) core.Spec {
	return core.Spec{Index: "i", Shortening: core.Shortening{Threshold: 4000, Sample: sample}}
}

// all reduces every partition and reads the classes back.
func all(
	t *testing.T, art artifact.Index, sp core.Spec, partitions int, shards ...string,
) (map[core.ID]rows.Reduced, core.Digest) {
	out := map[core.ID]rows.Reduced{}
	var sum core.SetHash
	for p := range partitions {
		scratch := fmt.Sprintf("s%d", partitions)
		res := stagetest.Must(reduce.Run(t.Context(), reduce.In{
			Spec: sp, Artifacts: art, Scratch: scratch, Shards: shards, Partition: p, Partitions: partitions,
			OnProgress: func(int64) {},
		}))
		sum.Merge(res.Content)
		key := artifact.ScratchKey(reduce.Key(scratch, p), res.Rows)
		for row := range musttest.All(t, artifact.ScanAll(t.Context(), art.Store, key)) {
			out[core.ID(row.Key)] = stagetest.Must(rows.DecodeReduced(row.Value))
		}
	}
	return out, sum.Digest()
}

func chunk(n int) core.ID { return core.ChunkID("d", fmt.Sprint(n), 0) }

func TestMentionsOfOneNameBecomeOneClass(t *testing.T) {
	art := store(t)
	shard(t, art, "a", []mention{
		{"bohr", rows.Mention{Chunk: chunk(0), Number: 0, Position: 0, Surface: "Bohr", Description: "A physicist."}},
		{"bohr", rows.Mention{Chunk: chunk(0), Number: 0, Position: 3, Surface: "BOHR", Description: "Twice here."}},
		{"dane", rows.Mention{Chunk: chunk(1), Number: 1, Position: 0, Surface: "Dane"}},
	})
	shard(t, art, "b", []mention{
		{"bohr", rows.Mention{Chunk: chunk(2), Number: 0, Position: -1, Surface: "Bohr", Description: "From Denmark."}},
	})
	cs, sum := all(t, art, spec(256), 1, "a", "b")
	b := cs[core.ClassID("bohr")]
	assert.True(t, len(cs) == 2 && b.Name == "Bohr" && b.Mentions == 3 && b.ChunkTotal == 2 &&
		fmt.Sprint(b.Descriptions) == "[From Denmark. Twice here. A physicist.]", "%d classes, %+v", len(cs), b)
	for _, p := range []int{2, 16} {
		got, s := all(t, art, spec(256), p, "a", "b")
		assert.True(t, s == sum && len(got) == 2, "%d partitions: %d classes, hash %s, want %s", p, len(got), s, sum)
	}
}

// probe is a store that looks at the live heap while one object is read.
type probe struct {
	blob.Store
	key   string
	reads int
	most  uint64
}

func (p *probe) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := p.Store.Get(ctx, key, part)
	if err != nil || key != p.key {
		return body, info, err
	}
	return probed{body, p}, info, nil
}

type probed struct {
	io.ReadCloser
	probe *probe
}

func (b probed) Read(into []byte) (int, error) {
	b.probe.reads++
	b.probe.most = max(b.probe.most, liveHeap())
	return b.ReadCloser.Read(into)
}

// liveHeap returns how many bytes are reachable, whatever the collector did so far.
func liveHeap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A class of 100,000 mentions is streamed (docs/invariants.md, 7): what is held when its last shard is read does not
// follow its size, and its text is made from a sample that a new mention hardly ever changes.
// Promises: 7.
func TestAHugeClassIsStreamed(t *testing.T) {
	art := store(t)
	var shards []string
	const perShard, shardCount = 10_000, 10
	for k := range shardCount {
		ms := make([]mention, perShard)
		for i := range ms {
			n := k*perShard + i
			ms[i] = mention{"hub", rows.Mention{
				Chunk: chunk(n), Number: int64(i), Document: "d", Surface: "Hub",
				Description: fmt.Sprintf("Description %d of the hub, which is long enough to be worth something.", n),
			}}
		}
		key := fmt.Sprint("shard", k)
		shard(t, art, key, ms)
		shards = append(shards, key)
	}
	watched := &probe{Store: art.Store, key: shards[shardCount-1]}
	art.Store = watched
	before := liveHeap()
	classes, _ := all(t, art, spec(256), 1, shards...)
	hub := classes[core.ClassID("hub")]
	require.True(t, hub.Mentions == perShard*shardCount && hub.ChunkTotal == hub.Mentions && len(hub.Descriptions) == 256,
		"%d mentions, %d chunks, %d descriptions", hub.Mentions, hub.ChunkTotal, len(hub.Descriptions))
	held := int64(watched.most) - int64(before)
	t.Logf("held at most %d KiB more than before, at %d reads of the last shard", held>>10, watched.reads)
	assert.True(t, watched.reads >= 5, "the last shard was looked at %d times: too few to see anything", watched.reads)
	if held > 8<<20 { // 100,000 mentions are over 20 MiB
		t.Errorf("%d MiB are held while a class streams by", held>>20)
	}
	shard(t, art, "one more", []mention{
		{"hub", rows.Mention{Chunk: chunk(-1), Surface: "Hub", Description: "A new description of the hub."}},
	})
	more, _ := all(t, art, spec(256), 1, append(shards, "one more")...)
	old, kept := map[string]bool{}, 0
	for _, description := range hub.Descriptions {
		old[description] = true
	}
	for _, description := range more[core.ClassID("hub")].Descriptions {
		if old[description] {
			kept++
		}
	}
	assert.True(t, kept >= 255, "one new mention replaced %d of 256 sampled descriptions", 256-kept)
}

func of(name string, n, position int, description string) mention {
	return mention{"x", rows.Mention{
		Chunk: chunk(n), Number: int64(n), Position: position, Surface: name, Description: description,
	}}
}

// Every class id is in exactly one partition.
func TestPartitionsDivideTheIds(t *testing.T) {
	for _, partitions := range []int{1, 2, 64, 256} {
		before := ""
		for p := range partitions {
			from, to := reduce.PartitionBounds(p, partitions)
			require.True(t, (p <= 0 || from == before) && (to == "") == (p == partitions-1) && (to == "" || to > from),
				"%d of %d: %x to %x after %x", p, partitions, from, to, before)
			before = to
		}
	}
}

func TestCountsOfLongClassesEdgesAndMentions(t *testing.T) {
	art := store(t)
	long := strings.Repeat("é", 3996)
	shard(t, art, "a", []mention{
		{"at", rows.Mention{Chunk: chunk(0), Surface: "At", Description: long}}, // 3 + 3,997 runes: not over 4,000
		{"over", rows.Mention{Chunk: chunk(0), Surface: "Over", Description: long}},
		{"over", rows.Mention{Chunk: chunk(1), Number: 1, Surface: "Over"}},
	})
	res, err := reduce.Run(t.Context(), reduce.In{
		Spec: spec(256), Artifacts: art, Scratch: "s", Shards: []string{"a"}, Partitions: 1, OnProgress: func(int64) {},
	})
	assert.True(t, err == nil && res.Long == 1 && res.Counts.Classes == 2 && res.Counts.Edges == 3 &&
		res.Counts.Mentions == 3, "%+v, %v", res, err)
}

func TestADamagedOrMissingShardIsAnError(t *testing.T) {
	art := store(t)
	shard(t, art, "good", []mention{of("X", 0, 0, "d")})
	raw, _ := musttest.Get2(blob.Read(t.Context(), art.Store, "good"))(t)
	raw[12] ^= 1
	stagetest.Must(blob.Write(t.Context(), art.Store, "bad", raw, blob.Cond{}))
	for key, code := range map[string]fault.Code{"bad": fault.SegmentDamage, "missing": fault.NotFound} {
		musttest.Code(t, musttest.Err(reduce.Run(t.Context(), reduce.In{
			Spec: spec(256), Artifacts: art, Scratch: "s", Shards: []string{"good", key},
			Partitions: 1, OnProgress: func(int64) {},
		})), code, key)
	}
}

func TestDistantShardsAreOpenedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := artifact.Index{Store: blobmemory.New(), Name: "i"}
		var shards []string
		for n := range 30 {
			name := fmt.Sprint("shard", n)
			shard(t, near, name, []mention{of("crane", n, 0, "A crane."), of(fmt.Sprint("lone", n), n, 1, "One.")})
			shards = append(shards, name)
		}
		requests := distance.New(15 * time.Millisecond)
		far := artifact.Index{Store: distance.Blob(near.Store, requests), Name: "i"}
		in := reduce.In{
			Spec: spec(256), Artifacts: far, Scratch: "s", Shards: shards, Partitions: 1, OnProgress: func(int64) {},
		}
		result, err := reduce.Run(t.Context(), in)
		require.True(t, err == nil && result.Counts.Mentions == 60, "%+v %v", result.Counts, err)
		counted := requests.Take()
		assert.True(t, counted.Chain <= 8 && counted.Of("") <= 5*30, "a chain of %d:\n%s", counted.Chain, counted)
	})
}

// opens counts the readers of shards that are open at once, and looks at what is in use when there are most.
type opens struct {
	blob.Store
	now, most atomic.Int64
	heap      atomic.Uint64 // most bytes in use, as seen at some readings
	reads     atomic.Int64
	every     int64 // readings between two looks
}

func (o *opens) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := o.Store.Get(ctx, key, part)
	if err != nil || !strings.HasPrefix(key, "shard") {
		return body, info, err
	}
	now := o.now.Add(1)
	for most := o.most.Load(); now > most && !o.most.CompareAndSwap(most, now); most = o.most.Load() {
	}
	if o.every > 0 && o.reads.Add(1)%o.every == 0 {
		if heap := liveHeap(); heap > o.heap.Load() {
			o.heap.Store(heap)
		}
	}
	return &opened{ReadCloser: body, of: o}, info, nil
}

type opened struct {
	io.ReadCloser
	of   *opens
	once sync.Once
}

func (o *opened) Close() error {
	o.once.Do(func() { o.of.now.Add(-1) })
	return o.ReadCloser.Close()
}

// manyShards writes shards of three mentions: of a name that all have, of one that some have, and of their own.
func manyShards(t *testing.T, art artifact.Index, n int) []string {
	shards := make([]string, n)
	for k := range shards {
		key := fmt.Sprintf("shard-%05d", k)
		say := func(name string) mention {
			return mention{name, rows.Mention{
				Chunk: chunk(k), Number: 0, Document: "d", Surface: strings.ToUpper(name),
				Description: fmt.Sprintf("What shard %d says of %s.", k, name),
			}}
		}
		names := []mention{say("hub"), say(fmt.Sprint("some ", k%7)), say(fmt.Sprint("own ", k))}
		shard(t, art, key, names)
		shards[k] = key
	}
	return shards
}

func reduced(t testing.TB, art artifact.Index, partitions int, shards []string) string {
	var out strings.Builder
	for p := range partitions {
		res := stagetest.Must(reduce.Run(t.Context(), reduce.In{
			Spec: spec(16), Artifacts: art, Scratch: "s", Shards: shards, Partition: p, Partitions: partitions,
			OnProgress: func(int64) {},
		}))
		fmt.Fprintf(&out, "%+v\n", res) // which names all files by their content
	}
	return out.String()
}

// However few files are merged at once the same bytes come of it.
func TestShardsThatAreMergedInGroupsGiveTheSameBytes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 9, 31, 33} {
		art := artifact.Index{Store: blobmemory.New(), Name: "i"}
		shards := manyShards(t, art, n)
		want := reduced(t, art, 4, shards)
		for _, files := range []int{2, 3, 8} {
			reduce.SetFanIn(t, files)
			got := reduced(t, art, 4, shards)
			assert.True(t, got == want, "%d shards, %d at once:\n%swant\n%s", n, files, got, want)
		}
		reduce.SetFanIn(t, 128)
	}
}

// Promises: 7.
func TestReadersOfAPartitionAreBoundedWhateverTheNumberOfShards(t *testing.T) {
	type held struct{ open, bytes int64 }
	seen := map[int]held{}
	for _, n := range []int{1, 100, 5000} {
		near := artifact.Index{Store: blobmemory.New(), Name: "i"}
		shards := manyShards(t, near, n)
		for _, files := range []int{128, 1 << 30} { // as it is; and as if all were merged at once
			reduce.SetFanIn(t, files)
			watched := &opens{Store: near.Store, every: int64(max(1, n/20))}
			runtime.GC()
			begin := liveHeap()
			reduced(t, artifact.Index{Store: watched, Name: "i"}, 1, shards)
			assert.Zero(t, watched.now.Load())
			bytes := max(0, int64(watched.heap.Load())-int64(begin))
			t.Logf("%d shards, %d at once: %d open, %d KiB", n, files, watched.most.Load(), bytes>>10)
			if files == 128 {
				seen[n] = held{watched.most.Load(), bytes}
			}
		}
	}
	if most := seen[5000].open; most > 128+64 { // and those that are just being opened
		t.Errorf("%d readers are open at once", most)
	}
	most := seen[5000].bytes
	assert.True(t, most <= 32<<20, "%d MiB are held", most>>20)
}

// An error in the middle of the merge is returned, and leaves nothing open.
func TestAShardThatCannotBeReadStopsTheMergeOfRuns(t *testing.T) {
	near := artifact.Index{Store: blobmemory.New(), Name: "i"}
	shards := manyShards(t, near, 20)
	shards[13] = "shard-missing"
	reduce.SetFanIn(t, 4)
	watched := &opens{Store: near.Store}
	_, err := reduce.Run(t.Context(), reduce.In{
		Spec: spec(16), Artifacts: artifact.Index{Store: watched, Name: "i"}, Scratch: "s", Shards: shards, Partitions: 1,
		OnProgress: func(int64) {},
	})
	assert.True(t, err != nil && watched.now.Load() == 0, "%v, %d open", err, watched.now.Load())
	ctx, cancel := context.WithCancel(t.Context())
	shards[13] = "shard-00013"
	reports := 0
	_, err = reduce.Run(ctx, reduce.In{
		Spec: spec(16), Artifacts: artifact.Index{Store: watched, Name: "i"}, Scratch: "s", Shards: shards, Partitions: 1,
		OnProgress: func(int64) {
			if reports++; reports == 4 { // of five groups of shards
				cancel()
			}
		},
	})
	assert.True(t, errors.Is(err, context.Canceled) && watched.now.Load() == 0, "%v, %d open", err, watched.now.Load())
}
