package middleware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/telemetry"
)

const (
	// quotaPatience bounds what a request waits for the store of quotas.
	quotaPatience = 2 * time.Second
	// quotaPause is how long plain requests do not ask a store again that did not answer.
	quotaPause = time.Second
	// usagePath is the route that shows quotas: it is no request that they count.
	usagePath = "/v1/usage"
)

// Quotas bound what callers may use in a day, over all replicas. nil bounds nothing.
type Quotas struct {
	rules   []config.Quota
	store   coordination.Quotas
	log     *slog.Logger
	process *telemetry.Process
	silent  atomic.Int64 // until when plain requests pass without asking, in nanoseconds
}

// NewQuotas returns the quotas of a configuration; nil where it has none.
func NewQuotas(
	rules []config.Quota, store coordination.Quotas, log *slog.Logger, process *telemetry.Process,
) *Quotas {
	if len(rules) == 0 {
		return nil
	}
	return &Quotas{rules: rules, store: store, log: log, process: process}
}

// LogUnmatched warns of quotas that no key has.
func (q *Quotas) LogUnmatched(ctx context.Context, keys access.Keeper) {
	if q == nil {
		return
	}
	known, err := keys.ListKeys(ctx)
	for _, rule := range q.rules {
		of := func(key access.Key) bool { return rule.Matches(key.ID, key.Name) }
		if err == nil && !slices.ContainsFunc(known, of) {
			q.log.Warn("no API key has this quota of query_api.quotas", "keys", rule.Keys)
		}
	}
}

// quota is what one subject may use in a day.
type quota struct {
	*Quotas
	subject string // key:ID
	limit   coordination.Use
	atOnce  int // requests; 0: no bound
}

// findQuota returns the quota of a subject by its names, or nil.
func (q *Quotas) findQuota(subject string, names ...string) *quota {
	if q == nil {
		return nil
	}
	for _, rule := range q.rules {
		if !rule.Matches(names...) {
			continue
		}
		out := &quota{Quotas: q, subject: subject, limit: coordination.Unlimited}
		for part, given := range []*float64{rule.Requests, rule.Answers, rule.Tokens, rule.Money} {
			if given != nil {
				out.limit[part] = toUnits(part, *given)
			}
		}
		if rule.Concurrent != nil {
			out.atOnce = int(*rule.Concurrent)
		}
		return out
	}
	return nil
}

// scaleOf returns in how many units the store counts one of a part.
func scaleOf(part int) float64 {
	if part == coordination.UsedMoney {
		return 1e9
	}
	return 1
}

// toUnits returns a number as the store counts it. A price that makes no amount counts as the most.
func toUnits(part int, n float64) int64 {
	if most := config.MostMoney * 1e9; !(n*scaleOf(part) <= most) {
		return int64(most)
	}
	return int64(math.Round(n * scaleOf(part)))
}

func fromUnits(part int, n int64) float64 { return float64(n) / scaleOf(part) }

// take takes what a request uses. The error is fault.BudgetSpent where a part is short, else one of the store. What is
// never allowed is refused without asking.
func (q *quota) take(ctx context.Context, id string, want coordination.Use) (coordination.Use, error) {
	for part, limit := range q.limit {
		if limit == 0 && want[part] > 0 {
			return coordination.Use{}, q.newSpentError(part, 0, want[part], 0)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, quotaPatience)
	defer cancel()
	taken, err := q.store.TakeQuota(ctx, q.subject, id, want, q.limit)
	if part := taken.Short; err == nil && part >= 0 {
		err = q.newSpentError(part, taken.Used[part], want[part], taken.Renews)
	}
	return taken.Used, err
}

// newSpentError returns the error of a caller whose quota does not have what a request needs.
func (q *quota) newSpentError(part int, used, want int64, renews time.Duration) error {
	name := coordination.UseNames[part]
	q.process.Count(telemetry.QuotaRefused, 1, q.subject, name)
	show := func(n int64) string { return strconv.FormatFloat(fromUnits(part, n), 'f', -1, 64) }
	err := fault.BudgetSpent.At("answer the request", "").
		Because(fmt.Sprintf("the quota for %s is %s a day: %s are used, and this request needs up to %s", name,
			show(q.limit[part]), show(used), show(want))).
		Advise("wait until midnight UTC, or ask the operator for a higher quota (query_api.quotas)")
	err.RetryAfter = renews
	return err
}

// meter counts what one request uses of its caller's quota. nil counts nothing.
type meter struct {
	*quota
	mu       sync.Mutex
	used     coordination.Use // by the caller today, when the request came
	spent    coordination.Use // by the request
	reserved []string         // ids
}

// countRequest counts a request in. It passes where the store does not answer: reading costs nothing.
func (m *meter) countRequest(request *http.Request) (err error) {
	bounded := max(m.limit[coordination.UsedRequests], m.limit[coordination.UsedTokens], m.limit[coordination.UsedMoney])
	if bounded < 0 || request.URL.Path == usagePath {
		return nil
	}
	m.spent[coordination.UsedRequests] = 1
	if time.Now().UnixNano() < m.silent.Load() && m.limit[coordination.UsedRequests] != 0 {
		return nil
	}
	m.used, err = m.take(request.Context(), "", m.spent)
	if err == nil || fault.Is(err, fault.BudgetSpent) || request.Context().Err() != nil {
		return err
	}
	if now := time.Now(); m.silent.Swap(now.Add(quotaPause).UnixNano()) < now.UnixNano() {
		m.log.Warn("quotas cannot be checked: requests pass uncounted, and answers are refused",
			"code", string(fault.CodeOf(err)), "error", err.Error())
	}
	return nil
}

var errQuotaUnknown = fault.QuotaUnknown.At("check the quota of the key", "").
	Because("the store that counts quotas does not answer").
	Advise("send the query without answer, or try again later")

// reserveAnswer reserves what an answer may cost. Without the store there are no answers: they cost money.
func (m *meter) reserveAnswer(ctx context.Context, tokens int64, money float64) error {
	if m == nil || max(m.limit[coordination.UsedAnswers], m.limit[coordination.UsedTokens],
		m.limit[coordination.UsedMoney]) < 0 {
		return nil
	}
	id := rand.Text()
	_, err := m.take(ctx, id, coordination.Use{coordination.UsedAnswers: 1, coordination.UsedTokens: tokens,
		coordination.UsedMoney: toUnits(coordination.UsedMoney, money)})
	if fault.Is(err, fault.BudgetSpent) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved = append(m.reserved, id) // after an error of the store it may be reserved all the same
	if err != nil && ctx.Err() == nil {
		m.process.Count(telemetry.QuotaRefused, 1, m.subject, "unknown")
		m.log.Warn("an answer is refused, as its quota cannot be checked", "subject", m.subject,
			"code", string(fault.CodeOf(err)), "error", err.Error())
		return errQuotaUnknown
	}
	m.spent[coordination.UsedAnswers]++
	return err
}

// admitCall admits a paid call that is part of no answer, such as the embedding of a question, by what was used when
// the request came.
func (m *meter) admitCall() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range []int{coordination.UsedTokens, coordination.UsedMoney} {
		if limit := m.limit[part]; limit >= 0 && m.used[part] >= limit && len(m.reserved) == 0 {
			return m.newSpentError(part, m.used[part], 0, untilMidnight())
		}
	}
	return nil
}

// untilMidnight returns how long this day of UTC lasts by the clock of this process.
func untilMidnight() time.Duration { return time.Until(time.Now().UTC().Truncate(day).Add(day)) }

// addSpent adds what a question cost.
func (m *meter) addSpent(tokens int64, money float64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent[coordination.UsedTokens] += tokens
	m.spent[coordination.UsedMoney] += toUnits(coordination.UsedMoney, money)
}

// settle replaces what was reserved by what was used, when the request has ended, however it did.
func (m *meter) settle(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for part, n := range m.spent {
		m.process.Count(telemetry.QuotaUsed, fromUnits(part, n), m.subject, coordination.UseNames[part])
	}
	cost := m.spent
	cost[coordination.UsedRequests], cost[coordination.UsedAnswers] = 0, 0 // counted before
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotaPatience)
	defer cancel()
	var err error
	if len(m.reserved) == 0 && cost != (coordination.Use{}) &&
		max(m.limit[coordination.UsedTokens], m.limit[coordination.UsedMoney]) >= 0 {
		_, err = m.store.TakeQuota(ctx, m.subject, "", cost, coordination.Unlimited)
	}
	for i, id := range m.reserved {
		used := coordination.Use{coordination.UsedAnswers: 1}
		if i == 0 {
			used = used.Plus(cost)
		}
		err = errors.Join(err, m.store.SettleQuota(ctx, m.subject, id, used))
	}
	if err != nil {
		m.log.Warn("the cost of a request is not counted, or what it reserved stays counted until midnight UTC", "subject",
			m.subject, "tokens", cost[coordination.UsedTokens],
			"money", fromUnits(coordination.UsedMoney, cost[coordination.UsedMoney]), "error", err.Error())
	}
}

// enterRequest counts a request in, or returns why it has to wait. leave ends it.
func (c *Caller) enterRequest(request *http.Request) (leave func(), err error) {
	leaveAccount, err := c.account.enterRequest()
	if err != nil || c.account.quota == nil {
		return leaveAccount, err
	}
	c.meter = &meter{quota: c.account.quota}
	if err := c.meter.countRequest(request); err != nil {
		leaveAccount()
		return nil, err
	}
	return func() {
		defer leaveAccount()
		c.meter.settle(request.Context())
	}, nil
}

// AdmitAnswer admits a question that the chat model is to answer, for so many tokens and so much money, about.
func (c *Caller) AdmitAnswer(ctx context.Context, tokens int64, money float64) error {
	if err := c.account.checkMoney(); err != nil {
		return err
	}
	return c.meter.reserveAnswer(ctx, tokens, money)
}

// AdmitCall admits a paid call that is part of no answer.
func (c *Caller) AdmitCall() error { return c.meter.admitCall() }

// Spend counts what a question cost.
func (c *Caller) Spend(tokens int64, money float64) {
	c.account.addSpent(money)
	c.meter.addSpent(tokens, money)
}

// QuotaUse is what a caller used of one of its quotas today.
type QuotaUse struct {
	Quota string  `json:"quota" enum:"requests,answers,tokens,money" doc:"what is bounded"`
	Limit float64 `json:"limit" doc:"a day"`
	Used  float64 `json:"used" doc:"so far, with what requests that still run have reserved"`
}

// ReadQuotas returns what a caller used of its quotas today, and how long the day lasts.
func (c *Caller) ReadQuotas(ctx context.Context) ([]QuotaUse, time.Duration, error) {
	out := []QuotaUse{}
	if c.meter == nil {
		return out, untilMidnight(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, quotaPatience)
	defer cancel()
	none := coordination.Use{}
	taken, err := c.meter.store.TakeQuota(ctx, c.meter.subject, "", none, none)
	if err != nil {
		return nil, 0, errQuotaUnknown
	}
	for part, limit := range c.meter.limit {
		if limit >= 0 {
			out = append(out, QuotaUse{coordination.UseNames[part], fromUnits(part, limit), fromUnits(part, taken.Used[part])})
		}
	}
	return out, taken.Renews, nil
}
