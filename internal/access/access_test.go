package access_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

type broken struct {
	blob.Store
	mu    sync.Mutex
	err   error
	stats int
}

func (b *broken) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *broken) Stat(ctx context.Context, key string) (blob.Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stats++
	if b.err != nil {
		return blob.Info{}, b.err
	}
	return b.Store.Stat(ctx, key)
}

type world struct {
	t     *testing.T
	store *broken
	at    time.Time
	book  access.Book
	ring  *access.Ring
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: &broken{Store: blobmemory.New()}, at: time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)}
	w.book = access.Book{Store: w.store, Now: func() time.Time { return w.at }}
	w.ring = access.NewRing(w.store, slog.New(slog.DiscardHandler), func() time.Time { return w.at })
	return w
}

func (w *world) create(request access.Request) access.Made {
	made := musttest.Get(w.book.CreateKey(w.t.Context(), request))(w.t)
	w.refresh()
	return made
}

func (w *world) refresh() { require.NoError(w.t, w.ring.Refresh(w.t.Context())) }

func (w *world) check(text string, want fault.Code) {
	_, err := w.ring.Check(w.t.Context(), text)
	assert.True(w.t, fault.CodeOf(err) == want, "%.12s…: %v, want %q", text, err, want)
}

func TestAKeyIsKnownByItsTextAlone(t *testing.T) {
	w := newWorld(t)
	made := w.create(access.Request{Name: "page", Scope: access.Query, Index: "docs-*", Expires: time.Hour})
	w.check(made.Text, "")
	key := musttest.Get(w.ring.Check(w.t.Context(), made.Text))(t)
	grant := key.Grant()
	covers := grant.Covers("docs-1") && !grant.Covers("other") && !grant.Covers("")
	assert.True(t, key.ID == made.Key.ID && covers, "%+v", key)
	other := w.create(access.Request{Scope: access.Query})
	mixed := made.Text[:13] + other.Text[13:]
	for name, text := range map[string]string{
		"nothing": "", "a word": "secret", "a letter less": made.Text[:len(made.Text)-1],
		"one letter other": made.Text[:20] + "*" + made.Text[21:], "the id of one, the secret of another": mixed,
		"an unknown key": strings.ToUpper(made.Text), "with more behind": made.Text + "x",
	} {
		musttest.Code(t, musttest.Err(w.ring.Check(w.t.Context(), text)), fault.Unauthorized, name)
		assert.False(t, access.WellFormed(text), "%s has the form of a key", name)
	}
	w.at = w.at.Add(time.Hour)
	w.refresh()
	w.check(made.Text, fault.Unauthorized)
}

func TestTheStoreHoldsNothingThatOneCanAskWith(t *testing.T) {
	w := newWorld(t)
	made := w.create(access.Request{Scope: access.Admin})
	raw, _, err := blob.Read(t.Context(), w.store, access.Object)
	assert.True(t, err == nil && !strings.Contains(string(raw), made.Text[14:]) &&
		strings.Contains(string(raw), made.Key.ID), "%s %v", raw, err)
	list := musttest.Get(w.book.ListKeys(t.Context()))(t)
	assert.True(t, len(list) == 1 && list[0].Digest == "" && made.Key.Digest == "", "a list shows digests: %+v", list)
	if _, err := w.book.RevokeKey(t.Context(), made.Text); err == nil || strings.Contains(err.Error(), made.Text[14:]) {
		t.Errorf("a key that is given for its id is repeated: %v", err)
	}
}

func TestARevokedKeyStaysRevokedAndARotatedOneGoesOnForItsOverlap(t *testing.T) {
	w := newWorld(t)
	first := w.create(access.Request{Scope: access.Operate, Index: "a*", Expires: 48 * time.Hour,
		Limits: access.Limits{Concurrency: 3}})
	second, err := w.book.RotateKey(t.Context(), first.Key.ID, time.Hour)
	require.True(t, err == nil && second.Key.Scope == access.Operate && second.Key.Index == "a*" &&
		second.Key.Limits.Concurrency == 3 && second.Key.Expires.Equal(w.at.Add(48*time.Hour)), "%+v %v", second, err)
	w.refresh()
	w.check(first.Text, "")
	w.check(second.Text, "")
	w.at = w.at.Add(time.Hour)
	w.refresh()
	w.check(first.Text, fault.Unauthorized)
	third := musttest.Get(w.book.RotateKey(t.Context(), second.Key.ID, 0))(t)
	musttest.Get(w.book.RevokeKey(t.Context(), third.Key.ID))(t)
	w.refresh()
	w.check(second.Text, fault.Unauthorized)
	w.check(third.Text, fault.Unauthorized)
	musttest.Refuse(w.book.RotateKey(t.Context(), third.Key.ID, 0))(t, fault.Usage)
	w.store.fail(errors.New("away"))
	_ = w.ring.Refresh(t.Context())
	w.check(third.Text, fault.Unauthorized)
}

func TestKnownKeysGoOnForAWhileWithoutTheirStore(t *testing.T) {
	w := newWorld(t)
	w.check("uwk_x", fault.KeysUnknown) // nothing was read yet
	made := w.create(access.Request{Scope: access.Query})
	w.store.fail(fault.StoreDown.At("stat", "s3"))
	w.at = w.at.Add(access.StaleAfter)
	require.Error(t, w.ring.Refresh(t.Context()), "the store is away")
	w.check(made.Text, "")
	w.at = w.at.Add(time.Second)
	w.check(made.Text, fault.KeysUnknown)
	w.store.fail(nil)
	w.refresh()
	w.check(made.Text, "")
	require.NoError(t, w.store.Delete(t.Context(), access.Object))
	w.refresh()
	w.check(made.Text, fault.Unauthorized)
}

func TestManyWhoMakeKeysAtOnceLoseNone(t *testing.T) {
	w := newWorld(t)
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			assert.NoError(t, musttest.Err(w.book.CreateKey(t.Context(), access.Request{Scope: access.Query})))
		})
	}
	wait.Wait()
	list, err := w.book.ListKeys(t.Context())
	assert.True(t, len(list) == 6, "%d keys, %v", len(list), err)
}

func TestARequestThatMakesNoSenseMakesNoKey(t *testing.T) {
	w := newWorld(t)
	for name, request := range map[string]access.Request{ // a name that does not begin with "a " is what the error says
		"scope": {}, "scope root": {Scope: "root"},
		"expires -1h0m0s":                       {Scope: access.Query, Expires: -time.Hour},
		"name: want at most 200 bytes, got 201": {Scope: access.Query, Name: strings.Repeat("n", 201)},
		"key is for one name":                   {Scope: access.Query, Index: "a,b"},
		"limits":                                {Scope: access.Query, Limits: access.Limits{MoneyPerDay: -1}},
		"a half pattern":                        {Scope: access.Query, Index: "[a"},
		"a pattern that is a path":              {Scope: access.Query, Index: "../../x"},
		"a pattern of capitals":                 {Scope: access.Query, Index: "Docs*"},
		"a name that colours":                   {Scope: access.Query, Name: "x\x1b[31m"},
		"a name of two lines":                   {Scope: access.Query, Name: "x\nuwk_1 admin"},
		"a name that turns around":              {Scope: access.Query, Name: "x\u202e"},
		"a name of other bytes":                 {Scope: access.Query, Name: "\xff"},
		"a label of two lines":                  {Scope: access.Query, Labels: []string{"x\ny"}},
		"a label that is two":                   {Scope: access.Query, Labels: []string{"x,y"}},
		"labels":                                {Scope: access.Query, Labels: make([]string, 2)},
		"a limit of no number":                  {Scope: access.Query, Limits: access.Limits{RequestsPerSecond: math.NaN()}},
	} {
		_, err := w.book.CreateKey(t.Context(), request)
		assert.True(t, fault.Is(err, fault.Usage) && (strings.HasPrefix(name, "a ") || strings.Contains(err.Error(), name)),
			"%s: %v", name, err)
	}
}

func TestAKeyForNoIndexThereIsIsMadeWithAWarning(t *testing.T) {
	w := newWorld(t)
	musttest.Get(blob.Write(t.Context(), w.store, "docs/current.json", []byte("{}"), blob.Cond{}))(t)
	for index, warned := range map[string]bool{"docs": false, "d*": false, "": false, "dosc": true, "x*": true} {
		made := w.create(access.Request{Scope: access.Query, Index: index})
		assert.Equal(t, warned, made.Warning != "", "%q: %s", index, made.Warning)
	}
}

func TestARevokedKeyEndsWithinASecondWhereTheKeysAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := blobmemory.New()
		book := access.Book{Store: store}
		made := musttest.Get(book.CreateKey(t.Context(), access.Request{Scope: access.Query}))(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var rings []*access.Ring
		for range 3 {
			ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
			go ring.WatchKeys(ctx)
			rings = append(rings, ring)
			time.Sleep(access.RefreshEvery / 3) // they do not look at the same time
		}
		for _, ring := range rings {
			assert.NoError(t, musttest.Err(ring.Check(t.Context(), made.Text)))
		}
		musttest.Get(book.RevokeKey(t.Context(), made.Key.ID))(t)
		time.Sleep(time.Second)
		for _, ring := range rings {
			musttest.Refuse(ring.Check(t.Context(), made.Text))(t, fault.Unauthorized)
		}
	})
}

// A script that makes a key and uses it does not fail once; texts that have the form of a key cannot flood the store.
func TestAFreshKeyIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, elsewhere := &broken{Store: blobmemory.New()}, access.Book{Store: blobmemory.New()}
		ring := access.NewRing(store, slog.New(slog.DiscardHandler), nil)
		require.NoError(t, ring.Refresh(t.Context()))
		foreign := musttest.Get(elsewhere.CreateKey(t.Context(), access.Request{Scope: access.Query}))(t)
		for range 3 {
			made := musttest.Get(access.Book{Store: store}.CreateKey(t.Context(), access.Request{Scope: access.Query}))(t)
			before, began := store.stats, time.Now()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					assert.NoError(t, musttest.Err(ring.Check(t.Context(), made.Text)))
					musttest.Refuse(ring.Check(t.Context(), foreign.Text))(t, fault.Unauthorized)
				})
			}
			all.Wait()
			assert.LessOrEqual(t, store.stats-before, 1+int(time.Since(began)/(100*time.Millisecond)))
		}
		store.fail(errors.New("down")) // nor one that does not answer
		before, began := store.stats, time.Now()
		for range 10 {
			_, _ = ring.Check(t.Context(), foreign.Text)
		}
		assert.LessOrEqual(t, store.stats-before, 1+int(time.Since(began)/(100*time.Millisecond)))
	})
}

func TestAScopeIncludesTheNarrowerOnes(t *testing.T) {
	for i, have := range access.Scopes {
		for j, need := range access.Scopes {
			assert.Equal(t, i >= j, have.Includes(need), "%s includes %s", have, need)
		}
	}
	assert.True(t, !access.Scope("").Includes(access.Query) && !access.Admin.Includes(""), "no scope is none")
}

func TestLimitsOfAKeyWinOverTheGeneralOnes(t *testing.T) {
	general := access.Limits{RequestsPerSecond: 1, Burst: 2, Concurrency: 3, AnswersPerMinute: 4, MoneyPerDay: 5}
	assert.Equal(t, general, access.Limits{}.WithDefaults(general))
	own := access.Limits{RequestsPerSecond: 6, Burst: 7, Concurrency: 8, AnswersPerMinute: 9, MoneyPerDay: 10}
	assert.Equal(t, own, own.WithDefaults(general))
}
