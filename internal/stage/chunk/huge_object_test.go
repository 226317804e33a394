package chunk_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// huge is a corpus of which one object is listed with 5 GB. Of its bytes come as many as a test can wait for.
type huge struct {
	*documenttest.Corpus
	versioned bool
	key       string
	comes     int64
	most      uint64 // bytes of the heap while it was read
}

// IsVersioned implements blob.Versioned: a first build reads such a corpus once.
func (h *huge) IsVersioned() bool { return h.versioned }

func (h *huge) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return h.ListRange(ctx, prefix, after, "")
}

func (h *huge) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range h.Corpus.ListRange(ctx, prefix, after, until) {
			if info.Key == h.key {
				info.Size = 1 << 20
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func (h *huge) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := h.Corpus.Get(ctx, key, part)
	if err == nil && key == h.key {
		body, info.Size = io.NopCloser(&wordStream{huge: h, left: h.comes}), 1<<20
	}
	return body, info, err
}

// wordStream gives words without end.
type wordStream struct {
	*huge
	left int64
	read int
}

func (a *wordStream) Read(to []byte) (int, error) {
	if a.left <= 0 {
		return 0, io.EOF
	}
	to = to[:min(int64(len(to)), a.left)]
	for i := range to {
		to[i] = "words "[i%6]
	}
	a.left -= int64(len(to))
	if a.read++; a.read%256 == 0 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		a.most = max(a.most, stats.HeapAlloc)
	}
	return len(to), nil
}

// An object that has far more bytes than were listed is refused by the limits, whatever its type. It is read through
// for its version, by the plan or by the unit, in bounded memory, and beats meanwhile: silence for twelve minutes
// counts as hanging.
func TestAnObjectOfGigabytesIsRefusedInBoundedMemoryAndIsNeverSilent(t *testing.T) {
	for key, limit := range map[string]string{
		"a.txt": "limits.document.text", "a.html": "limits.document.bytes", "a.pdf": "limits.document.bytes",
	} {
		for _, versioned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, versioned %v", key, versioned), func(t *testing.T) {
				r := newRun(t, map[string]string{key: "words", "z.txt": "short"})
				r.limits.Text, r.limits.Bytes = 1<<20, 1<<20
				store := &huge{Corpus: r.corpus, versioned: versioned, key: key, comes: 100 << 20}
				before := heap()
				reported, problems := r.chunkAll(store)
				if len(problems) != 1 || problems[0].Code != string(fault.TooLarge) || problems[0].Object != key ||
					!strings.Contains(problems[0].Detail, limit) {
					t.Errorf("problems %+v", problems)
				}
				assert.True(t, reported >= 12, "%d reports of 100 MiB", reported)
				assert.True(t, store.most <= before+48<<20, "it took %d bytes of memory", store.most-before)
			})
		}
	}
}

// heap returns how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// chunkAll plans and chunks a corpus in place of the run's; reported counts the signs of life.
func (r *run) chunkAll(store blob.Store) (reported int64, problems []core.Problem) {
	r.t.Helper()
	var signs atomic.Int64
	planned := stagetest.Must(plan.Run(r.t.Context(), plan.In{
		Spec: r.spec, Corpus: store, Artifacts: r.art, Scratch: r.scratch, Limits: r.limits,
		OnProgress: func(int64) {}, OnBytes: func() { signs.Add(1) },
	}))
	for unit, cut := range planned.Units {
		res := stagetest.Must(chunk.Run(r.t.Context(), chunk.In{
			Spec: r.spec, Corpus: store, Artifacts: r.art, Scratch: r.scratch, Plan: r.rows(), Unit: unit, From: cut.From,
			To: cut.To, OnProgress: func(int64) { signs.Add(1) }, Limits: r.limits, Parser: documenttest.Here{Limits: r.limits},
		}))
		problems = append(problems, res.Problems...)
	}
	return signs.Load(), problems
}
