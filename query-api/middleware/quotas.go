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
	// quotaPatience bounds what an answer, and counting what a request cost, wait for the store of quotas.
	quotaPatience = 2 * time.Second
	// plainPatience bounds what other requests wait for it, before and after.
	plainPatience = 300 * time.Millisecond
	// quotaPause is how long plain requests do not ask a store again that did not answer.
	quotaPause = 5 * time.Second
	// settleTries are made to count what a request cost, a quotaPause apart; mostSettling requests may wait for that.
	settleTries, mostSettling = 12, 1000
	// mostUnits is more than any limit, and a number that Redis counts exactly.
	mostUnits = 9e15
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

	settling chan struct{} // has an entry for each request whose cost is being counted
	stop     chan struct{} // closed: the process ends
	close    sync.Once
}

// NewQuotas returns the quotas of a configuration; nil where it has none.
func NewQuotas(
	rules []config.Quota, store coordination.Quotas, log *slog.Logger, process *telemetry.Process,
) *Quotas {
	if len(rules) == 0 {
		return nil
	}
	return &Quotas{
		rules: rules, store: store, log: log, process: process,
		settling: make(chan struct{}, mostSettling), stop: make(chan struct{}),
	}
}

// Close waits until what requests cost is counted, while the store answers. No request runs any more.
func (q *Quotas) Close() {
	if q == nil {
		return
	}
	q.close.Do(func() {
		close(q.stop)
		for range cap(q.settling) {
			q.settling <- struct{}{}
		}
	})
}

// LogUnmatched warns of quotas of keys that are the first for no key.
func (q *Quotas) LogUnmatched(ctx context.Context, keys access.Book) {
	if q == nil {
		return
	}
	known, err := keys.ListKeys(ctx)
	for i, rule := range q.rules {
		counts := func(key access.Key) bool { return q.findRule(key) == i }
		if err == nil && rule.Keys != "" && !slices.ContainsFunc(known, counts) {
			q.log.Warn("no API key has this quota of query_api.quotas: no key matches it, or an earlier entry counts",
				"keys", rule.Keys)
		}
	}
}

// quota is what one subject may use in a day.
type quota struct {
	*Quotas
	subject string // key:ID or group:NAME
	stored  string // its name in the store
	limit   coordination.Use
	money   float64  // in how many units the store counts one of the currency
	atOnce  int      // requests; 0: no bound
	places  *account // of these requests, where callers share the quota; nil: the account of the caller has them
}

// findRule returns the entry that counts for a key, or -1.
func (q *Quotas) findRule(key access.Key) int {
	return slices.IndexFunc(q.rules, func(rule config.Quota) bool { return rule.Matches(key.ID, key.Name) })
}

// ofKey returns the quota of a key, or nil.
func (q *Quotas) ofKey(key access.Key) *quota {
	if q == nil {
		return nil
	}
	if i := q.findRule(key); i >= 0 {
		return q.newQuota("key:"+key.ID, q.rules[i])
	}
	return nil
}

// ofGroups returns the quota of a person by the first entry that matches a group, or nil; groups are sorted.
func (q *Quotas) ofGroups(groups []string) *quota {
	for _, rule := range q.rules {
		if i := slices.IndexFunc(groups, rule.MatchesGroup); i >= 0 {
			out := q.newQuota("group:"+groups[i], rule)
			out.places = newAccount(access.Limits{Concurrency: out.atOnce})
			return out
		}
	}
	return nil
}

// newQuota returns the quota that an entry gives a subject. Much money is counted in larger units, under another name:
// numbers of the two units do not mix.
func (q *Quotas) newQuota(subject string, rule config.Quota) *quota {
	out := &quota{Quotas: q, subject: subject, stored: subject, limit: coordination.Unlimited, money: 1e9}
	if rule.Money != nil && *rule.Money > config.FineMoney {
		out.stored, out.money = "thousandths:"+subject, 1e3
	}
	for part, given := range []*float64{rule.Requests, rule.Answers, rule.Tokens, rule.Money} {
		if given != nil {
			out.limit[part] = out.toUnits(part, *given)
		}
	}
	if rule.Concurrent != nil {
		out.atOnce = int(*rule.Concurrent)
	}
	return out
}

// bounds reports whether one of these parts has a limit.
func (q *quota) bounds(parts ...int) bool {
	return slices.ContainsFunc(parts, func(part int) bool { return q.limit[part] >= 0 })
}

// scaleOf returns in how many units the store counts one of a part.
func (q *quota) scaleOf(part int) float64 {
	if part == coordination.UsedMoney {
		return q.money
	}
	return 1
}

// toUnits returns a number as the store counts it. One that is too large, or no number, fits into no limit.
func (q *quota) toUnits(part int, n float64) int64 {
	if n *= q.scaleOf(part); n <= mostUnits {
		return int64(math.Round(n))
	}
	return mostUnits
}

func (q *quota) fromUnits(part int, n int64) float64 { return float64(n) / q.scaleOf(part) }

// take takes what a request uses. The error is fault.BudgetSpent where a part is short, else one of the store. What is
// never allowed is refused without asking.
func (q *quota) take(
	ctx context.Context, patience time.Duration, id string, want coordination.Use,
) (coordination.Use, error) {
	for part, limit := range q.limit {
		if limit == 0 && want[part] > 0 {
			return coordination.Use{}, q.newSpentError(part, 0, want[part], 0)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	taken, err := q.store.TakeQuota(ctx, q.stored, id, want, q.limit)
	if part := taken.Short; err == nil && part >= 0 {
		err = q.newSpentError(part, taken.Used[part], want[part], taken.Renews)
	}
	return taken.Used, err
}

// newSpentError returns the error of a caller whose quota does not have what a request needs; want 0: it is used up.
// Waiting is of no use where the whole quota would not do.
func (q *quota) newSpentError(part int, used, want int64, renews time.Duration) error {
	name, limit := coordination.UseNames[part], q.limit[part]
	q.process.Count(telemetry.QuotaRefused, 1, q.subject, name)
	show := func(n int64) string { return strconv.FormatFloat(q.fromUnits(part, n), 'f', -1, 64) }
	why := fmt.Sprintf("the quota for %s is %s a day: %s are used", name, show(limit), show(used))
	if want > 0 {
		why += ", and this request needs up to " + show(want)
	}
	err, advice := fault.BudgetSpent.At("answer the request", "").Because(why), "wait until midnight UTC, or "
	if err.RetryAfter = renews; limit == 0 || want > limit {
		err.RetryAfter, advice = 0, ""
		if limit > 0 {
			advice = "send a smaller max_answer_tokens, or "
		}
	}
	return err.Advise(advice + "ask the operator for a higher quota (query_api.quotas)")
}

// meter counts what one request uses of its caller's quota. nil counts nothing.
type meter struct {
	*quota
	mu       sync.Mutex
	used     coordination.Use // by the caller today, when the request came
	spent    coordination.Use // by the request
	reserved []reservation
}

// reservation is what a request has reserved by an id, and what it used of that.
type reservation struct {
	id    string
	used  coordination.Use
	taken bool // the store has it; else it may have it, and nothing was used
}

// countRequest counts a request in. It passes where the store does not answer: reading costs nothing.
func (m *meter) countRequest(request *http.Request) (err error) {
	bounded := m.bounds(coordination.UsedRequests, coordination.UsedTokens, coordination.UsedMoney)
	if !bounded || request.URL.Path == usagePath {
		return nil
	}
	m.spent[coordination.UsedRequests] = 1
	if m.isSilent() && m.limit[coordination.UsedRequests] != 0 {
		return nil
	}
	m.used, err = m.take(request.Context(), plainPatience, "", m.spent)
	if err == nil || fault.Is(err, fault.BudgetSpent) || request.Context().Err() != nil {
		return err
	}
	m.noteSilence(err)
	return nil
}

// isSilent reports whether the store did not answer a moment ago.
func (q *Quotas) isSilent() bool { return time.Now().UnixNano() < q.silent.Load() }

// noteSilence notes that the store did not answer.
func (q *Quotas) noteSilence(err error) {
	if now := time.Now(); q.silent.Swap(now.Add(quotaPause).UnixNano()) < now.UnixNano() {
		q.log.Warn("quotas cannot be checked: requests pass uncounted, and answers are refused",
			"code", string(fault.CodeOf(err)), "error", err.Error())
	}
}

var errQuotaUnknown = fault.QuotaUnknown.At("check the quota", "").
	Because("the store that counts quotas does not answer").
	Advise("send the query without answer, or try again later")

// reserveAnswer reserves what an answer may cost. Without the store there are no answers: they cost money.
func (m *meter) reserveAnswer(ctx context.Context, tokens int64, money float64) error {
	if m == nil || !m.bounds(coordination.UsedAnswers, coordination.UsedTokens, coordination.UsedMoney) {
		return nil
	}
	id := rand.Text()
	_, err := m.take(ctx, quotaPatience, id, coordination.Use{coordination.UsedAnswers: 1,
		coordination.UsedTokens: tokens, coordination.UsedMoney: m.toUnits(coordination.UsedMoney, money)})
	if fault.Is(err, fault.BudgetSpent) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.spent[coordination.UsedAnswers]++
		m.reserved = append(m.reserved, reservation{id, coordination.Use{coordination.UsedAnswers: 1}, true})
		return nil
	}
	m.reserved = append(m.reserved, reservation{id: id}) // the store may have it all the same
	if ctx.Err() == nil {
		m.process.Count(telemetry.QuotaRefused, 1, m.subject, "unknown")
		m.log.Warn("an answer is refused, as its quota cannot be checked", "subject", m.subject,
			"code", string(fault.CodeOf(err)), "error", err.Error())
		return errQuotaUnknown
	}
	return err
}

// admitCall admits a paid call that is part of no answer, such as the embedding of a question, by what was used when
// the request came, and what the request has spent since.
func (m *meter) admitCall() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range []int{coordination.UsedTokens, coordination.UsedMoney} {
		used := m.used[part] + m.spent[part]
		if limit := m.limit[part]; limit >= 0 && used >= limit && !m.hasAnswer() {
			return m.newSpentError(part, used, 0, untilMidnight())
		}
	}
	return nil
}

// hasAnswer reports whether an answer is reserved. The caller holds the lock.
func (m *meter) hasAnswer() bool {
	return slices.ContainsFunc(m.reserved, func(one reservation) bool { return one.taken })
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
	m.spent[coordination.UsedMoney] += m.toUnits(coordination.UsedMoney, money)
}

// settle replaces what was reserved by what was used, when the request has ended, however it did. Its answer waits a
// moment for that, and not at all while the store is silent.
func (m *meter) settle(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for part, n := range m.spent {
		m.process.Count(telemetry.QuotaUsed, m.fromUnits(part, n), m.subject, coordination.UseNames[part])
	}
	cost := m.spent
	cost[coordination.UsedRequests], cost[coordination.UsedAnswers] = 0, 0 // counted before
	at := slices.IndexFunc(m.reserved, func(one reservation) bool { return one.taken })
	switch {
	case at >= 0:
		m.reserved[at].used = m.reserved[at].used.Plus(cost)
	case cost != (coordination.Use{}) && m.bounds(coordination.UsedTokens, coordination.UsedMoney):
		m.reserved = append(m.reserved, reservation{rand.Text(), cost, false})
	}
	if len(m.reserved) == 0 {
		return
	}
	select {
	case m.settling <- struct{}{}:
	default:
		m.logUncounted(cost, errors.New("too many requests wait for the store that counts quotas"))
		return
	}
	settled, reserved := make(chan struct{}), m.reserved
	go func() {
		defer func() { <-m.settling }()
		defer close(settled)
		m.retrySettling(context.WithoutCancel(ctx), cost, reserved)
	}()
	if m.isSilent() {
		return
	}
	select {
	case <-settled:
	case <-time.After(plainPatience):
	}
}

// retrySettling settles reservations, again until the store has answered, and once more where the process ends. Each
// may arrive twice.
func (q *quota) retrySettling(ctx context.Context, cost coordination.Use, left []reservation) {
	var err error
	for try := 1; ; try++ {
		if left, err = q.settleAll(ctx, left); err == nil {
			return
		}
		if q.noteSilence(err); try >= settleTries {
			q.logUncounted(cost, err)
			return
		}
		select {
		case <-time.After(quotaPause):
		case <-q.stop:
			try = max(try, settleTries-1)
		}
	}
}

// settleAll settles reservations, and returns those that are left after an error.
func (q *quota) settleAll(ctx context.Context, left []reservation) ([]reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, quotaPatience)
	defer cancel()
	for len(left) > 0 {
		one := &left[0]
		if !one.taken && one.used != (coordination.Use{}) { // the cost of what reserved nothing
			if _, err := q.store.TakeQuota(ctx, q.stored, one.id, one.used, coordination.Unlimited); err != nil {
				return left, err
			}
			one.taken = true
		}
		if err := q.store.SettleQuota(ctx, q.stored, one.id, one.used); err != nil {
			return left, err
		}
		left = left[1:]
	}
	return nil, nil
}

// logUncounted logs what a request cost that could not be counted.
func (q *quota) logUncounted(cost coordination.Use, err error) {
	q.log.Warn("the cost of a request is not counted, or what it reserved stays counted until midnight UTC", "subject",
		q.subject, "tokens", cost[coordination.UsedTokens],
		"money", q.fromUnits(coordination.UsedMoney, cost[coordination.UsedMoney]), "error", err.Error())
}

// enterRequest counts a request in, or returns why it has to wait. leave ends it: its place is free before its cost is
// counted.
func (c *Caller) enterRequest(request *http.Request) (leave func(), err error) {
	leaveAccount, err := c.account.enterRequest()
	if err != nil || c.quota == nil {
		return leaveAccount, err
	}
	if places := c.quota.places; places != nil {
		leavePlace, err := places.enterRequest()
		if err != nil {
			leaveAccount()
			return nil, err
		}
		leaveOwn := leaveAccount
		leaveAccount = func() { leavePlace(); leaveOwn() }
	}
	c.meter = &meter{quota: c.quota}
	if err := c.meter.countRequest(request); err != nil {
		leaveAccount()
		return nil, err
	}
	return func() {
		leaveAccount()
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
	taken, err := c.meter.store.TakeQuota(ctx, c.meter.stored, "", none, none)
	if err != nil {
		return nil, 0, errQuotaUnknown
	}
	for part, limit := range c.meter.limit {
		if limit >= 0 {
			show := c.meter.fromUnits
			out = append(out, QuotaUse{coordination.UseNames[part], show(part, limit), show(part, taken.Used[part])})
		}
	}
	return out, taken.Renews, nil
}
