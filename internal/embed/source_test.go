package embed_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact/artifacttest"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
)

// embedder answers with the length of each text; refuse says which requests it does not take.
type embedder struct {
	paid   bool
	asked  [][]string
	refuse func(texts []string) error
}

func (e *embedder) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: e.paid} }
func (e *embedder) Dimension() int   { return 2 }

func (e *embedder) Embed(_ context.Context, texts []string) ([][]float32, model.Usage, error) {
	e.asked = append(e.asked, texts)
	if e.refuse != nil {
		if err := e.refuse(texts); err != nil {
			return nil, model.Usage{}, err
		}
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = []float32{float32(len(text)), 1}
	}
	return vectors, model.Usage{}, nil
}

func source(t *testing.T, e *embedder) (embed.Source, *artifacttest.Memory) {
	t.Helper()
	claims, err := bolt.Open(filepath.Join(t.TempDir(), "claims"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = claims.Close() })
	store := artifacttest.New()
	return embed.Source{Embedder: e, Ledger: ledger.New(store, claims)}, store
}

func batch(texts ...string) []embed.Item {
	items := make([]embed.Item, len(texts))
	for i, text := range texts {
		items[i] = embed.Item{Key: fmt.Sprint("row ", i), Digest: embed.Digest(text, corpus.Digest{}), Text: text}
	}
	return items
}

// lengths checks that every vector is that of its text.
func lengths(t *testing.T, vectors [][]float32, want ...int) {
	t.Helper()
	if len(vectors) != len(want) {
		t.Fatalf("%d vectors, want %d", len(vectors), len(want))
	}
	for i, n := range want {
		if int(vectors[i][0]) != n {
			t.Errorf("vector %d is that of a text of %v bytes, want %d", i, vectors[i][0], n)
		}
	}
}

func TestABatchIsPaidOnceAndThenComesFromTheLedger(t *testing.T) {
	e := &embedder{paid: true}
	src, _ := source(t, e)
	for round, hits := range []int64{0, 1, 1} {
		vectors, progress, err := src.Vectors(t.Context(), batch("a", "bb", "ccc"))
		if err != nil || progress.Hits.Embed != hits {
			t.Fatalf("round %d: %d hits, %v", round, progress.Hits.Embed, err)
		}
		lengths(t, vectors, 1, 2, 3)
	}
	if len(e.asked) != 1 {
		t.Errorf("asked %d times", len(e.asked))
	}
}

func TestAnUnpaidEmbedderWritesNoLedgerAndCountsNoHit(t *testing.T) {
	e := &embedder{}
	src, store := source(t, e)
	for range 2 {
		if _, progress, err := src.Vectors(t.Context(), batch("a")); err != nil || progress.Hits.Embed != 0 {
			t.Fatal(progress, err)
		}
	}
	if keys := store.Keys(""); len(keys) != 0 {
		t.Errorf("it wrote %v", keys)
	}
}

func TestAFailedRequestIsNoHit(t *testing.T) {
	e := &embedder{paid: true, refuse: func([]string) error { return fault.ModelAuth.At("embed", "m") }}
	src, store := source(t, e)
	_, progress, err := src.Vectors(t.Context(), batch("a"))
	if !fault.Is(err, fault.ModelAuth) || progress.Hits.Embed != 0 || len(store.Keys("")) != 0 {
		t.Errorf("%v, %d hits, stored %v", err, progress.Hits.Embed, store.Keys(""))
	}
}

// The model refuses any request that holds the bad text, until that text is alone and cut.
func TestARejectedRequestIsHalvedUntilTheTextAtFaultIsAloneAndCut(t *testing.T) {
	bad := strings.Repeat("word ", 2000)
	e := &embedder{paid: true, refuse: func(texts []string) error {
		for _, text := range texts {
			if len(text) > 5000 {
				return fault.ModelRejected.At("embed", "m")
			}
		}
		return nil
	}}
	src, _ := source(t, e)
	vectors, _, err := src.Vectors(t.Context(), batch("a", "bb", bad, "dddd", "eeeee"))
	if err != nil {
		t.Fatal(err)
	}
	cut := embed.Fit(bad, 256)
	lengths(t, vectors, 1, 2, len(cut), 4, 5)
	asked := len(e.asked)
	if vectors, _, err = src.Vectors(t.Context(), batch("a", "bb", bad, "dddd", "eeeee")); err != nil {
		t.Fatal(err)
	}
	lengths(t, vectors, 1, 2, len(cut), 4, 5)
	if len(e.asked) != asked {
		t.Errorf("a second run asked %d times more", len(e.asked)-asked)
	}
}

// What one half of a halved request cost is kept when the other half fails for a while.
func TestAPaidHalfIsNotPaidAgainWhenTheOtherFails(t *testing.T) {
	down := true
	e := &embedder{paid: true}
	e.refuse = func(texts []string) error {
		switch {
		case len(texts) > 2:
			return fault.ModelRejected.At("embed", "m")
		case down && texts[0] == "ccc":
			return fault.ModelQuota.At("embed", "m")
		}
		return nil
	}
	src, _ := source(t, e)
	items := batch("a", "bb", "ccc", "dddd")
	if _, _, err := src.Vectors(t.Context(), items); !fault.Is(err, fault.ModelQuota) {
		t.Fatal(err)
	}
	down, e.asked = false, nil
	vectors, progress, err := src.Vectors(t.Context(), items)
	if err != nil || progress.Hits.Embed != 0 {
		t.Fatal(progress, err)
	}
	lengths(t, vectors, 1, 2, 3, 4)
	for _, texts := range e.asked {
		if len(texts) == 2 && texts[0] == "a" {
			t.Error("the first half was paid again")
		}
	}
}

func TestATextThatIsRejectedEvenCutIsNamed(t *testing.T) {
	e := &embedder{paid: true, refuse: func([]string) error { return fault.ModelRejected.At("embed", "m") }}
	src, _ := source(t, e)
	_, _, err := src.Vectors(t.Context(), batch("a"))
	if !fault.Is(err, fault.ModelRejected) || fault.As(err).Object != "row 0" || fault.As(err).Hint == "" {
		t.Errorf("%v", err)
	}
}

func TestADamagedLedgerObjectIsNeverTakenForVectors(t *testing.T) {
	for _, c := range []struct {
		situation string
		edit      func([]byte) []byte
	}{
		{"cut", func(raw []byte) []byte { return raw[:len(raw)-1] }},
		{"empty", func([]byte) []byte { return nil }},
		{"of other texts", func(raw []byte) []byte { raw[10] ^= 1; return raw }},
		{"of another dimension", func(raw []byte) []byte { raw[4]++; return raw }},
		{"of another count", func(raw []byte) []byte { raw[0]++; return raw }},
	} {
		e := &embedder{paid: true}
		src, store := source(t, e)
		items := batch("a", "bb")
		if _, _, err := src.Vectors(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		keys := store.Keys("ledger/embed/loose/")
		if len(keys) != 1 || !strings.HasSuffix(keys[0], embed.Key(items).String()) {
			t.Fatalf("stored %v", keys)
		}
		store.Change(keys[0], c.edit)
		if _, _, err := src.Vectors(t.Context(), items); !fault.Is(err, fault.SegmentDamage) {
			t.Errorf("%s: %v", c.situation, err)
		}
	}
}

func TestBatchesAreBoundedByItemsAndTextAndPassErrorsOn(t *testing.T) {
	boom := errors.New("boom")
	count := 0
	for items, err := range embed.Batches(func(yield func(embed.Item, error) bool) {
		for range 10 {
			if !yield(embed.Item{Text: strings.Repeat("x", 50_000)}, nil) {
				return
			}
		}
		yield(embed.Item{}, boom)
	}) {
		if err != nil {
			if !errors.Is(err, boom) {
				t.Error(err)
			}
			break
		}
		if count += len(items); len(items) > 2 {
			t.Errorf("a request of %d texts of 50,000 bytes", len(items))
		}
	}
	if count != 8 { // the two that were being gathered go with the error
		t.Errorf("%d texts before the error", count)
	}
}
