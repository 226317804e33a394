// Package searchtest has what the tests of the parts of a search share: reference vectors, graphs, ends of callers.
package searchtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// ReadReference reads vectors of a kind: from the folder of all of them that UNWEAVER_TEST_REFERENCE names, else from
// the subset in testdata.
func ReadReference(t testing.TB, kind, name string, into any) {
	t.Helper()
	folder := "testdata"
	if all := os.Getenv("UNWEAVER_TEST_REFERENCE"); all != "" {
		folder = filepath.Join(all, kind)
	}
	raw, err := os.ReadFile(filepath.Join(folder, name))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	require.NoError(t, err)
}

// MakeGraph returns the adjacency of classes, each of which is given by its chunks in order.
func MakeGraph(classes [][]uint32, chunks int) graph.Adjacency {
	g := graph.Adjacency{ClassOff: []uint64{0}, ChunkOff: []uint64{0}}
	of := make([][]uint32, chunks)
	for class, to := range classes {
		g.ClassTo = append(g.ClassTo, to...)
		g.ClassOff = append(g.ClassOff, uint64(len(g.ClassTo)))
		for _, chunk := range to {
			of[chunk] = append(of[chunk], uint32(class))
		}
	}
	for _, to := range of {
		g.ChunkTo = append(g.ChunkTo, to...)
		g.ChunkOff = append(g.ChunkOff, uint64(len(g.ChunkTo)))
	}
	return g
}

// OpenSide writes documents of terms as a side, and maps it until the test ends.
func OpenSide(t testing.TB, documents [][]string) *postings.Side {
	t.Helper()
	builder := postings.NewBuilder()
	defer builder.Close()
	var err error
	for _, terms := range documents {
		err = errors.Join(err, builder.Add(terms))
	}
	var content bytes.Buffer
	writer := mapped.NewWriter(&content, "side", 1, nil)
	stats, writing := builder.Write(writer, "x_")
	err = errors.Join(err, writing, writer.Close())
	file, opening := mapped.Open(scratchtest.WriteFile(t, content.Bytes()), "side", 1)
	if err = errors.Join(err, opening); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	return postings.Open(file, "x_", stats)
}

// looks is a context that ends after so many looks at it. Looks may come from several goroutines.
type looks struct {
	context.Context
	mu         sync.Mutex
	left, late int // late: looks after its end
}

// Err returns context.Canceled once enough looks have come.
func (l *looks) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left >= 0 {
		return nil
	}
	l.late++
	return context.Canceled
}

// CheckEnds runs whole, where it must look at its context so often at least, and ended after some of its looks in so
// many parts, where it may look at most late times more.
func CheckEnds(t testing.TB, name string, least, late, parts int, run func(ctx context.Context) error) {
	t.Helper()
	whole := &looks{Context: t.Context(), left: 1 << 30}
	if err := run(whole); err != nil {
		t.Fatal(name, err)
	}
	all := 1<<30 - whole.left
	assert.True(t, all >= least, "%s: only %d looks at the context, want %d at least", name, all, least)
	for after := 0; after < all; after += 1 + all/parts {
		ctx := &looks{Context: t.Context(), left: after}
		if err := run(ctx); !errors.Is(err, context.Canceled) || ctx.late > late {
			t.Errorf("%s, ended after %d of %d looks: %v, and %d more", name, after, all, err, ctx.late)
		}
	}
}
