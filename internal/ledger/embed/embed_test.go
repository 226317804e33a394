package embed_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestALongChunkIsCutIntoOverlappingWindowsWithItsTitle(t *testing.T) {
	var words []string
	for i := range 400 {
		words = append(words, fmt.Sprint("w", i))
	}
	ws := embed.CutWindows("The title", strings.Join(words, " "), 600)
	if len(ws) != 4 { // 0–150, 110–260, 220–370, 330–400
		t.Fatalf("%d windows", len(ws))
	}
	for i, w := range ws {
		assert.True(t, strings.HasPrefix(w, "The title\n\nw"+fmt.Sprint(110*i)+" "), "window %d starts %.30q", i, w)
	}
	assert.True(t, strings.HasSuffix(ws[3], "w399") && strings.Contains(ws[0], "w149") && !strings.Contains(ws[0], "w150"),
		"%q", ws)
	one := embed.CutWindows("T", "short text", 900)
	assert.True(t, len(one) == 1 && one[0] == "T\n\nshort text", "%q", one)
}

func TestFitCutsToTokensOnRunes(t *testing.T) {
	s := strings.Repeat("größer 🙂 ", 500)
	for _, n := range []int{1, 7, 100} {
		f := embed.Fit(s, n)
		assert.True(t, tokens.Count(f) <= n && strings.HasPrefix(s, f) && strings.ToValidUTF8(f, "?") == f,
			"%d: %d tokens, %q", n, tokens.Count(f), f)
	}
	assert.Equal(t, s, embed.Fit(s, 0), "no limit cuts")
}

func TestRequestsAreCutByContent(t *testing.T) {
	cut := func(skip int) map[string]bool {
		out := map[string]bool{}
		for items, err := range embed.CutBatches(func(yield func(embed.Item, error) bool) {
			for i := range 2000 {
				s := fmt.Sprint("text ", i)
				if i != skip && !yield(embed.Item{Text: s, Digest: embed.Digest(s, core.Digest{})}, nil) {
					return
				}
			}
		}) {
			require.True(t, err == nil && len(items) <= 256, "%v %v", len(items), err)
			var names []string
			for _, it := range items {
				names = append(names, it.Text)
			}
			out[strings.Join(names, "|")] = true
		}
		return out
	}
	all, less := cut(-1), cut(700)
	assert.True(t, len(all) <= 13, "%d requests for 2,000 texts", len(all))
	same := 0
	for k := range less {
		if all[k] {
			same++
		}
	}
	assert.True(t, same >= len(less)/2, "%d of %d requests are the same after one text left", same, len(less))
}

// The object of the texts "a", "bb" and "ccc", as the first release wrote it.
const (
	goldenName   = "01fdb04bfd52e703831f9120bdc853cb1d37681943d4cec3178952686dfbb071"
	goldenObject = "8509e2c357a005e9d2420404fcffab43f0d1887f77c76c353885eb71f8f97cc5"
)

type embedder struct {
	mu     sync.Mutex
	paid   bool
	server string
	asked  [][]string
	refuse func(texts []string) error
}

func (e *embedder) Info() model.Info {
	return model.Info{Provider: "openai", Model: "m", Endpoint: e.server, Paid: e.paid}
}
func (e *embedder) Dimension() int { return 2 }

func (e *embedder) Embed(_ context.Context, texts []string) ([][]float32, model.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
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
	claims := musttest.Get(bolt.Open(filepath.Join(t.TempDir(), "claims")))(t)
	t.Cleanup(func() { _ = claims.Close() })
	store := artifacttest.New()
	e.server = rand.Text() // what a server takes is remembered for the process
	return embed.Source{Embedder: e, Ledger: ledger.New(store, claims)}, store
}

func batch(texts ...string) []embed.Item {
	items := make([]embed.Item, len(texts))
	for i, text := range texts {
		items[i] = embed.Item{Key: fmt.Sprint("row ", i), Digest: embed.Digest(text, core.Digest{}), Text: text}
	}
	return items
}

func lengths(t *testing.T, vectors [][]float32, want ...int) {
	t.Helper()
	require.Len(t, vectors, len(want))
	for i, n := range want {
		assert.True(t, int(vectors[i][0]) == n, "vector %d is that of a text of %v bytes, want %d", i, vectors[i][0], n)
	}
}

func TestATextIsPaidOnceInWhateverCompanyItComes(t *testing.T) {
	e := &embedder{paid: true}
	src, store := source(t, e)
	for _, c := range []struct {
		texts []string
		paid  string // texts of the request that is made; empty: none
		want  []int
	}{
		{[]string{"a", "bb", "ccc"}, "a bb ccc", []int{1, 2, 3}},
		{[]string{"a", "bb", "ccc"}, "", []int{1, 2, 3}},
		{[]string{"ccc", "a"}, "", []int{3, 1}},
		{[]string{"dddd", "bb", "dddd", "eeeee"}, "dddd eeeee", []int{4, 2, 4, 5}},
		{[]string{"eeeee", "ccc", "dddd"}, "", []int{5, 3, 4}},
	} {
		for _, process := range []string{"the same process", "another"} {
			vectors := musttest.Get(src.Vectors(t.Context(), batch(c.texts...)))(t)
			lengths(t, vectors, c.want...)
			asked := ""
			for _, request := range e.asked {
				asked += strings.Join(request, " ")
			}
			assert.Equal(t, c.paid, asked, "%v: %s asked for", c.texts, process)
			e.asked, c.paid = nil, ""
			src.Ledger = ledger.New(store, memory.NewClaims())
		}
	}
}

func TestWhatIsMissingIsToldWithoutAsking(t *testing.T) {
	e := &embedder{paid: true}
	src, _ := source(t, e)
	require.NoError(t, src.Pay(t.Context(), batch("a", "bb")))
	missing, err := src.FindMissing(t.Context(), batch("a", "ccc", "bb", "dddd"))
	assert.True(t, err == nil && len(missing) == 2 && missing[0].Text == "ccc" && missing[1].Text == "dddd" &&
		len(e.asked) == 1, "%+v, %v, %d requests", missing, err, len(e.asked))
}

func TestAnUnpaidEmbedderWritesNoLedger(t *testing.T) {
	e := &embedder{}
	src, store := source(t, e)
	for range 2 {
		musttest.Get(src.Vectors(t.Context(), batch("a")))(t)
	}
	assert.Empty(t, store.Keys(""), "it wrote")
}

func TestAFailedRequestStoresNothing(t *testing.T) {
	e := &embedder{paid: true, refuse: func([]string) error { return fault.ModelAuth.At("embed", "m") }}
	src, store := source(t, e)
	_, err := src.Vectors(t.Context(), batch("a"))
	assert.True(t, fault.Is(err, fault.ModelAuth) && len(store.Keys("ledger/embed/loose")) == 0, "%v, %v", err, store.Keys(""))
	e.refuse = nil // its claim was given back: nothing waits until it runs out
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	assert.NoError(t, src.Pay(ctx, batch("a")))
}

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
	vectors := musttest.Get(src.Vectors(t.Context(), batch("a", "bb", bad, "dddd", "eeeee")))(t)
	cut := embed.Fit(bad, 256)
	lengths(t, vectors, 1, 2, len(cut), 4, 5)
	asked := len(e.asked)
	vectors = musttest.Get(src.Vectors(t.Context(), batch("a", "bb", bad, "dddd", "eeeee")))(t)
	lengths(t, vectors, 1, 2, len(cut), 4, 5)
	assert.True(t, len(e.asked) == asked, "a second run asked %d times more", len(e.asked)-asked)
}

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
	musttest.Refuse(src.Vectors(t.Context(), items))(t, fault.ModelQuota)
	down, e.asked = false, nil
	vectors := musttest.Get(src.Vectors(t.Context(), items))(t)
	lengths(t, vectors, 1, 2, 3, 4)
	for _, texts := range e.asked {
		assert.True(t, len(texts) != 2 || texts[0] != "a", "the first half was paid again")
	}
}

// A gateway that refuses for a while must not leave the vector of half a text under the whole text's digest.
func TestAServerThatRefusedForAWhileCostsNoPartOfAText(t *testing.T) {
	long := strings.Repeat("word ", 2000)
	refusals := 1
	e := &embedder{paid: true, refuse: func([]string) error {
		if refusals--; refusals >= 0 {
			return fault.ModelRefused.At("embed", "m")
		}
		return nil
	}}
	src, _ := source(t, e)
	vectors := musttest.Get(src.Vectors(t.Context(), batch(long)))(t)
	lengths(t, vectors, len(long))
	refusals = 100
	src, _ = source(t, e)
	musttest.Refuse(src.Vectors(t.Context(), batch(long)))(t, fault.ModelRefused)
}

func TestATextThatIsRejectedEvenCutIsNamed(t *testing.T) {
	e := &embedder{paid: true, refuse: func([]string) error { return fault.ModelRejected.At("embed", "m") }}
	src, _ := source(t, e)
	_, err := src.Vectors(t.Context(), batch("a"))
	assert.True(t, fault.Is(err, fault.ModelRejected) && fault.As(err).Object == "row 0" && fault.As(err).Hint != "",
		"%v", err)
}

func TestBatchesAreBoundedByItemsAndTextAndPassErrorsOn(t *testing.T) {
	boom := errors.New("boom")
	count := 0
	for items, err := range embed.CutBatches(func(yield func(embed.Item, error) bool) {
		for range 10 {
			if !yield(embed.Item{Text: strings.Repeat("x", 50_000)}, nil) {
				return
			}
		}
		yield(embed.Item{}, boom)
	}) {
		if err != nil {
			assert.ErrorIs(t, err, boom)
			break
		}
		count += len(items)
		assert.True(t, len(items) <= 2, "a request of %d texts of 50,000 bytes", len(items))
	}
	if count != 8 { // the two that were being gathered go with the error
		t.Errorf("%d texts before the error", count)
	}
}

// How many texts a server takes is found out once; the text that it rejects says nothing of it.
func TestAServerThatTakesFewerTextsIsNotAskedForMoreAgain(t *testing.T) {
	texts := func(name string, count int) []embed.Item {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprint(name, " ", i))
		}
		return batch(all...)
	}
	refused := 0
	e := &embedder{paid: true, refuse: func(texts []string) error {
		var err error
		switch {
		case len(texts) > 32:
			err = fault.ModelRefused.At("embed", "texts").Because("batch size 256 > maximum allowed batch size 32")
		case strings.Contains(strings.Join(texts, " "), "poison"):
			err = fault.ModelRejected.At("embed", "texts")
		}
		if err != nil {
			refused++
		}
		return err
	}}
	src, _ := source(t, e)
	for _, c := range []struct {
		items   []embed.Item
		asked   int
		refused int
	}{
		{texts("one", 256), 11, 3}, // 256, 128, 64, and eight of 32
		{texts("two", 256), 8, 0},
		{texts("few", 20), 1, 0},
	} {
		e.asked, refused = nil, 0
		require.NoError(t, src.Pay(t.Context(), c.items))
		assert.True(t, len(e.asked) == c.asked && refused == c.refused,
			"%d requests, %d refused; want %d and %d", len(e.asked), refused, c.asked, c.refused)
	}
	err := src.Pay(t.Context(), append(texts("bad", 7), batch(strings.Repeat("poison ", 600))...))
	require.Error(t, err, "a text is poison in part too")
	e.asked = nil
	err = src.Pay(t.Context(), texts("after", 32))
	assert.True(t, err == nil && len(e.asked) == 1, "%d requests after a text was rejected, %v", len(e.asked), err)
}

func TestTheObjectOfARequestKeepsItsNameAndItsBytes(t *testing.T) {
	src, store := source(t, &embedder{paid: true})
	require.NoError(t, src.Pay(t.Context(), batch("a", "bb", "ccc")))
	objects := store.Keys("ledger/embed/loose/")
	raw, _, err := blob.Read(t.Context(), store, objects[0])
	require.True(t, err == nil && len(objects) == 1, "%v %v", objects, err)
	sum := sha256.Sum256(raw)
	assert.True(t, hex.EncodeToString(sum[:]) == goldenObject && strings.HasSuffix(objects[0], goldenName),
		"the object of a request changed: %s, %x", objects[0], sum)
}
