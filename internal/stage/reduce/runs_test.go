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

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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

// However few files are merged at once, and over how many levels, the same bytes come of it.
func TestShardsThatAreMergedInLevelsGiveTheSameBytes(t *testing.T) {
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
			if reports++; reports == 7 { // of five groups of shards: in the second level
				cancel()
			}
		},
	})
	assert.True(t, errors.Is(err, context.Canceled) && watched.now.Load() == 0, "%v, %d open", err, watched.now.Load())
}
