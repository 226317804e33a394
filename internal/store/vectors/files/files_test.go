package files

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/store/vectors/vectorstest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	store, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	vectorstest.Run(t, func(t *testing.T) vectors.Store { return open(t, t.TempDir()) })
}

func TestDot8EqualsPlainGo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 7, 31, 32, 33, 64, 100, 512, 1024, 1027} {
		a, b := make([]int8, n), make([]int8, n)
		for range 20 {
			for i := range a {
				a[i], b[i] = int8(r.IntN(255)-127), int8(r.IntN(255)-127)
			}
			if got, want := dot8(a, b), dot8Go(a, b); got != want {
				t.Fatalf("n=%d: %d, want %d", n, got, want)
			}
		}
		for i := range a {
			a[i], b[i] = -127, -127 // the largest sum
		}
		if got, want := dot8(a, b), int32(n)*127*127; got != want {
			t.Fatalf("n=%d: %d, want %d", n, got, want)
		}
	}
}

func TestRowsSurviveReopeningAndMerging(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	rs := vectorstest.Rows(60*20, vectorstest.Dim, 9)
	if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(rs); at += 20 { // more parts than a loaded collection keeps
		if err := store.Upsert(t.Context(), "c", rs[at:at+20]); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Load(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if n := len(store.open["c"].parts); n > maxParts {
		t.Errorf("%d parts after load", n)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open(t, dir)
	if n, err := store.Count(t.Context(), "c"); err != nil || n != int64(len(rs)) {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestADamagedPartIsNamed(t *testing.T) {
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Create(t.Context(), "c", vectorstest.Dim); err != nil {
		t.Fatal(err)
	}
	if err := store.Upsert(t.Context(), "c", vectorstest.Rows(50, vectorstest.Dim, 3)); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "c", "*.part"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	raw, err := os.ReadFile(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	raw[200] ^= 1
	if err := os.WriteFile(parts[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = open(t, dir).Count(t.Context(), "c")
	if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), parts[0]) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkSearch(b *testing.B) {
	store, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	const dim = 512
	rs := vectorstest.Rows(100_000, dim, 4)
	if err := store.Create(b.Context(), "c", dim); err != nil {
		b.Fatal(err)
	}
	if err := store.Upsert(b.Context(), "c", rs); err != nil {
		b.Fatal(err)
	}
	if err := store.Load(b.Context(), "c"); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if _, err := store.Search(b.Context(), "c", rs[i%1000].Vector, 10); err != nil {
			b.Fatal(err)
		}
	}
}
