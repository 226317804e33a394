package middleware

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// counted counts what a store of quotas is asked. While it hangs it takes reservations, and its answers are lost.
type counted struct {
	coordination.Quotas
	asked atomic.Int64
	hangs atomic.Bool
}

func (c *counted) wait(ctx context.Context) error {
	if !c.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return fault.StoreDown.At("reach", "redis").Because("10.0.0.7")
}

func (c *counted) TakeQuota(
	ctx context.Context, subject, id string, want, limit coordination.Use,
) (taken coordination.Taken, err error) {
	c.asked.Add(1)
	if err = c.wait(ctx); err == nil || id != "" {
		taken, _ = c.Quotas.TakeQuota(ctx, subject, id, want, limit)
	}
	return taken, err
}

func (c *counted) SettleQuota(ctx context.Context, subject, id string, used coordination.Use) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	return c.Quotas.SettleQuota(ctx, subject, id, used)
}

// people are signed on by tokens NAME.GROUP,GROUP.
type people struct{ SignOn }

func (people) Serves(string) bool { return false }

func (people) CheckToken(_ context.Context, text string) (*access.Person, error) {
	name, groups, _ := strings.Cut(text, ".")
	return &access.Person{Subject: name, Grants: grantAll(access.Query), Groups: strings.Split(groups, ",")}, nil
}

// tenant is a key with a quota, asked for through guards that share a store, as replicas do.
type tenant struct {
	*testing.T
	store  *counted
	log    *bytes.Buffer
	key    access.Made
	guards []*Guard
}

func newTenant(t *testing.T, rules ...config.Quota) *tenant {
	keys := blobmemory.New()
	ring, book := access.NewRing(keys, slog.New(slog.DiscardHandler), nil), access.Book{Store: keys}
	out := &tenant{T: t, store: &counted{Quotas: memory.NewQuotas(nil)}, log: &bytes.Buffer{}}
	out.key = musttest.Get(book.CreateKey(t.Context(), access.Request{Name: "team-a/b", Scope: access.Query}))(t)
	require.NoError(t, ring.Refresh(t.Context()))
	for range 2 {
		quotas := NewQuotas(rules, out.store, slog.New(slog.NewTextHandler(out.log, nil)), nil)
		quotas.LogUnmatched(t.Context(), book)
		policy := Policy{Keys: ring, Required: true, AnyHost: true, Quotas: quotas, SignOn: people{}}
		out.guards = append(out.guards, New(policy,
			func(w http.ResponseWriter, _ *http.Request, err error) {
				w.Header().Set("Code", string(fault.CodeOf(err)))
				wait := map[bool]string{true: ": wait", false: ": in vain"}[fault.As(err).RetryAfter > 0]
				w.Header().Set("Why", fault.As(err).Err.Error()+wait)
			}))
	}
	return out
}

// ask sends a request through one of the replicas; do is its handler, whose error is the answer's.
func (u *tenant) ask(replica int, path string, do func(*http.Request, *Caller) error) (code fault.Code, why string) {
	request := httptest.NewRequestWithContext(u.Context(), http.MethodGet, path, http.NoBody)
	bearer(u.key.Text)(request)
	got := httptest.NewRecorder()
	func() {
		defer func() { _ = recover() }()
		u.guards[replica].Wrap(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if err := do(request, CallerOf(request.Context())); err != nil {
				u.guards[replica].fail(w, request, err)
			}
		}), func(*http.Request) bool { return false }).ServeHTTP(got, request)
	}()
	return fault.Code(got.Header().Get("Code")), got.Header().Get("Why")
}

// pass sends a request that is not refused.
func (u *tenant) pass(replica int, do func(*http.Request, *Caller) error) {
	code, why := u.ask(replica, "/v1/indexes", do)
	assert.Empty(u, code, why)
}

func plain(*http.Request, *Caller) error { return nil }

// answer asks for an answer that is estimated at 100 tokens and 0.2, and costs 30 and 0.1.
func answer(request *http.Request, caller *Caller) error {
	err := caller.AdmitAnswer(request.Context(), 100, 0.2)
	if err == nil {
		caller.Spend(30, 0.1)
	}
	return err
}

// uses returns what the key has used by GET /v1/usage.
func (u *tenant) uses() map[string]float64 {
	out := map[string]float64{}
	u.ask(0, usagePath, func(request *http.Request, caller *Caller) error {
		uses, _, err := caller.ReadQuotas(request.Context())
		for _, one := range uses {
			out[one.Quota] = one.Used
		}
		return err
	})
	return out
}

func number(n float64) *float64 { return &n }

// Promises: 155.
func TestWhatAKeyMayUseInADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		search := func(_ *http.Request, caller *Caller) error { caller.Spend(5, 0); return caller.AdmitCall() }
		dear := func(request *http.Request, caller *Caller) error {
			err := caller.AdmitAnswer(request.Context(), 0, 2e9)
			if err == nil {
				caller.Spend(0, 1e9)
			}
			return err
		}
		for name, c := range map[string]struct {
			quota  config.Quota
			do     func(*http.Request, *Caller) error
			passes int
			why    string
		}{
			"requests":           {config.Quota{Requests: number(3)}, plain, 3, "3 are used, and this request needs up to 1: wait"},
			"no request":         {config.Quota{Requests: number(0)}, plain, 0, "up to 1: in vain"},
			"answers":            {config.Quota{Answers: number(2)}, answer, 2, "answers is 2 a day: 2 are used"},
			"no answer":          {config.Quota{Answers: number(0)}, answer, 0, "answers is 0 a day"},
			"tokens":             {config.Quota{Tokens: number(130)}, answer, 2, "60 are used, and this request needs up to 1"},
			"money":              {config.Quota{Money: number(0.4)}, answer, 3, "0.3 are used, and this request needs up to"},
			"no money":           {config.Quota{Money: number(0)}, answer, 0, "money is 0 a day"},
			"no money for calls": {config.Quota{Money: number(0)}, search, 0, "money is 0 a day: 0 are used: in vain"},
			"much money":         {config.Quota{Money: number(3e9)}, dear, 2, "2000000000 are used, and this request needs up to"},
			"too much money":     {config.Quota{Money: number(1e6)}, dear, 0, "in vain"},
			"5 tokens for calls": {config.Quota{Tokens: number(5)}, search, 0, "tokens is 5 a day"},
			"what costs nothing": {config.Quota{Money: number(0)}, plain, 9, ""},
		} {
			c.quota.Keys = "team-*"
			u, passed, refused := newTenant(t, c.quota), 0, ""
			for i := range 9 {
				code, why := u.ask(i%2, "/v1/indexes", c.do)
				if code == "" {
					passed++
					continue
				}
				assert.Equal(t, fault.BudgetSpent, code, name)
				refused = why
			}
			assert.Equal(t, c.passes, passed, name)
			assert.Contains(t, refused, c.why, name)
		}
	})
}

func TestTheFirstQuotaThatIsForAKeyCounts(t *testing.T) {
	u := newTenant(t, config.Quota{Keys: "team-b", Requests: number(0)}, config.Quota{Keys: "team-?*", Requests: number(1)},
		config.Quota{Keys: "*", Requests: number(0)})
	code, _ := u.ask(0, "/", plain)
	assert.Empty(t, code, "the page needs no key")
	u.pass(0, plain)
	assert.Equal(t, map[string]float64{"requests": 1}, u.uses())
	assert.Contains(t, u.log.String(), "keys=team-b")
	assert.Contains(t, u.log.String(), "keys=*\n", "a star stands for a slash too")
	assert.EqualValues(t, 2, u.store.asked.Load(), "one journey a request")
	free := newTenant(t, config.Quota{Keys: "*", Answers: number(5), Concurrent: number(1)})
	free.pass(0, func(*http.Request, *Caller) error {
		code, _ := free.ask(0, "/v1/indexes", plain)
		assert.Equal(t, fault.RateLimited, code, "a second at once")
		free.pass(1, plain)
		return nil
	})
	assert.Zero(t, free.store.asked.Load(), "nothing is asked where nothing bounds it")
}

// Promises: 155.
func TestWhatIsPaidIsCountedHoweverARequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(*http.Request, *Caller) error{
			"well":          plain,
			"with an error": func(*http.Request, *Caller) error { return errors.New("late") },
			"with a panic":  func(*http.Request, *Caller) error { panic("now") },
			"without its client": func(request *http.Request, _ *Caller) error {
				ctx, cancel := context.WithCancel(request.Context())
				*request = *request.WithContext(ctx)
				cancel()
				return nil
			},
		} {
			u := newTenant(t, config.Quota{Keys: "*", Answers: number(9), Money: number(1), Tokens: number(1000)})
			u.ask(0, "/v1/indexes", func(request *http.Request, caller *Caller) error {
				require.NoError(t, answer(request, caller))
				assert.InDelta(t, 0.2, u.uses()["money"], 1e-9, "%s: while it runs", name)
				return end(request, caller)
			})
			u.ask(1, "/v1/indexes", func(_ *http.Request, caller *Caller) error {
				caller.Spend(4, 0.01) // a search, whose embedding is paid for
				return end(&http.Request{}, caller)
			})
			assert.Equal(t, map[string]float64{"answers": 1, "money": 0.11, "tokens": 34}, u.uses(), name)
		}
	})
}

func TestWithoutTheStorePlainRequestsPassAndAnswersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newTenant(t, config.Quota{Keys: "*", Requests: number(4), Money: number(1)})
		u.store.hangs.Store(true)
		began := time.Now()
		for range 5 {
			u.pass(0, plain)
		}
		assert.EqualValues(t, 1, u.store.asked.Load(), "a store that does not answer is asked at every request")
		assert.LessOrEqual(t, time.Since(began), plainPatience)
		code, why := u.ask(0, "/v1/indexes", answer)
		assert.Equal(t, fault.QuotaUnknown, code)
		assert.NotContains(t, why, "10.0.0.7")
		u.store.hangs.Store(false)
		time.Sleep(3 * quotaPause)
		assert.Equal(t, map[string]float64{"requests": 0, "money": 0}, u.uses(), "a refused answer uses nothing")
		u.pass(0, func(request *http.Request, caller *Caller) error {
			defer u.store.hangs.Store(true)
			return answer(request, caller)
		})
		u.store.hangs.Store(false)
		u.guards[0].policy.Quotas.Close()
		assert.InDelta(t, 0.1, u.uses()["money"], 1e-9, "what was paid while the store hung is not counted")
	})
}

func TestThePeopleOfAGroupShareAQuota(t *testing.T) {
	u := newTenant(t, config.Quota{Keys: "*", Requests: number(0)}, config.Quota{Groups: "team-*", Requests: number(2),
		Concurrent: number(1)}, config.Quota{Groups: "*", Requests: number(1)})
	for i, c := range []struct {
		token string
		code  fault.Code
	}{
		{"ann.all,team-b", ""}, {"bob.team-b", ""}, {"eve.team-b", fault.BudgetSpent}, {"eve.team-c,team-d", ""},
		{"joe.all,other", ""}, {"joe.all", fault.BudgetSpent}, {"joe.other", ""}, {u.key.Text, fault.BudgetSpent},
	} {
		u.key.Text = c.token
		code, why := u.ask(i%2, "/v1/indexes", func(*http.Request, *Caller) error {
			u.key.Text = "zoe." + strings.SplitN(c.token, ".", 2)[1]
			code, _ := u.ask(i%2, usagePath, plain)
			assert.Equal(t, strings.Contains(c.token, "team"), code == fault.RateLimited, "%s: a second at once", c.token)
			return nil
		})
		assert.Equal(t, c.code, code, "%s: %s", c.token, why)
	}
}
