package middleware

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"net/http"
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
	// billion is how many parts of money the store counts.
	billion = 1e9
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

// LogUnmatched warns of quotas that no valid key has.
func (q *Quotas) LogUnmatched(ctx context.Context, keys access.Keeper) {
	if q == nil {
		return
	}
	known, err := keys.ListKeys(ctx)
	for _, rule := range q.rules {
		used := false
		for _, key := range known {
			used = used || key.StateAt(time.Now()) == "valid" && rule.Matches(key.ID, key.Name)
		}
		if err == nil && !used {
			q.log.Warn("no valid API key has this quota of query_api.quotas", "keys", rule.Keys)
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
		for part, given := range map[int]*int64{
			coordination.UsedRequests: rule.Requests, coordination.UsedAnswers: rule.Answers,
			coordination.UsedTokens: rule.Tokens,
		} {
			if given != nil {
				out.limit[part] = *given
			}
		}
		if rule.Money != nil {
			out.limit[coordination.UsedMoney] = toParts(*rule.Money)
		}
		if rule.Concurrent != nil {
			out.atOnce = int(*rule.Concurrent)
		}
		return out
	}
	return nil
}

// toParts returns money as the store counts it; what is no amount is the largest.
func toParts(money float64) int64 {
	if !(money >= 0 && money <= config.MostMoney) {
		money = config.MostMoney
	}
	return int64(math.Round(money * billion))
}

// bounds reports whether a quota bounds one of some parts.
func (q *quota) bounds(parts ...int) bool {
	for _, part := range parts {
		if q.limit[part] >= 0 {
			return true
		}
	}
	return false
}

// take takes what a request uses. The error is fault.BudgetSpent where a part is short, else one of the store. What is
// allowed to nobody is refused without asking.
func (q *quota) take(ctx context.Context, id string, want coordination.Use) (coordination.Use, error) {
	for part, limit := range q.limit {
		if limit == 0 && want[part] > 0 {
			return coordination.Use{}, q.newSpentError(part, coordination.Use{}, want, 0)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, quotaPatience)
	defer cancel()
	taken, err := q.store.TakeQuota(ctx, q.subject, id, want, q.limit)
	if err == nil && taken.Short >= 0 {
		err = q.newSpentError(taken.Short, taken.Used, want, taken.Renews)
	}
	return taken.Used, err
}

// newSpentError returns the error of a caller whose quota does not have what a request needs.
func (q *quota) newSpentError(part int, used, want coordination.Use, renews time.Duration) error {
	name := coordination.UseNames[part]
	q.process.Count(telemetry.QuotaRefused, 1, q.subject, name)
	why := fmt.Sprintf("the quota for %s is %s a day: %s are used, and this request needs up to %s", name,
		formatPart(part, q.limit[part]), formatPart(part, used[part]), formatPart(part, want[part]))
	err := fault.BudgetSpent.At("answer the request", "").Because(why).
		Advise("wait until midnight UTC, or ask the operator for a higher quota (query_api.quotas)")
	if q.limit[part] == 0 {
		err = err.Advise("ask the operator for a quota (query_api.quotas)")
	}
	err.RetryAfter = renews
	return err
}

// formatPart writes a part of a use for people.
func formatPart(part int, n int64) string {
	if part == coordination.UsedMoney {
		return strconv.FormatFloat(float64(n)/billion, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
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
func (m *meter) countRequest(request *http.Request) error {
	if !m.bounds(coordination.UsedRequests, coordination.UsedTokens, coordination.UsedMoney) ||
		request.URL.Path == usagePath {
		return nil
	}
	m.spent[coordination.UsedRequests] = 1
	if time.Now().UnixNano() < m.silent.Load() && m.limit[coordination.UsedRequests] != 0 {
		return nil
	}
	used, err := m.take(request.Context(), "", m.spent)
	if err != nil && !fault.Is(err, fault.BudgetSpent) && request.Context().Err() == nil {
		if now := time.Now(); m.silent.Swap(now.Add(quotaPause).UnixNano()) < now.UnixNano() {
			m.log.Warn("quotas cannot be checked: requests pass uncounted, and answers are refused",
				"code", string(fault.CodeOf(err)), "error", err.Error())
		}
		return nil
	}
	m.used = used
	return err
}

// reserveAnswer reserves what an answer may cost. Without the store there are no answers: they cost money.
func (m *meter) reserveAnswer(ctx context.Context, tokens int64, money float64) error {
	if m == nil || !m.bounds(coordination.UsedAnswers, coordination.UsedTokens, coordination.UsedMoney) {
		return nil
	}
	id := rand.Text()
	_, err := m.take(ctx, id, coordination.Use{coordination.UsedAnswers: 1, coordination.UsedTokens: tokens,
		coordination.UsedMoney: toParts(money)})
	if !fault.Is(err, fault.BudgetSpent) { // after an error of the store it may be reserved all the same
		m.mu.Lock()
		m.reserved = append(m.reserved, id)
		m.mu.Unlock()
		if err == nil {
			m.count(coordination.UsedAnswers, 1)
		}
	}
	if err != nil && !fault.Is(err, fault.BudgetSpent) && ctx.Err() == nil {
		m.process.Count(telemetry.QuotaRefused, 1, m.subject, "unknown")
		err = errQuotaUnknown
	}
	return err
}

var errQuotaUnknown = fault.QuotaUnknown.At("check the quota of the key", "").
	Because("the store that counts quotas does not answer").
	Advise("send the query without answer, or try again later")

// admitCall admits a paid call that is part of no answer, such as the embedding of a question, by what was used when
// the request came.
func (m *meter) admitCall() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.reserved) > 0 {
		return nil
	}
	for _, part := range []int{coordination.UsedTokens, coordination.UsedMoney} {
		if limit := m.limit[part]; limit >= 0 && m.used[part] >= limit {
			return m.newSpentError(part, m.used, coordination.Use{}, untilMidnight())
		}
	}
	return nil
}

// untilMidnight returns how long this day of UTC lasts by the clock of this process.
func untilMidnight() time.Duration { return time.Until(time.Now().UTC().Truncate(day).Add(day)) }

// count adds to what the request has used.
func (m *meter) count(part int, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent[part] += n
}

// settle replaces what was reserved by what was used, when the request has ended, however it did.
func (m *meter) settle(ctx context.Context) {
	m.mu.Lock()
	spent, reserved := m.spent, m.reserved
	m.mu.Unlock()
	for part, n := range spent {
		used := float64(n)
		if part == coordination.UsedMoney {
			used /= billion
		}
		m.process.Count(telemetry.QuotaUsed, used, m.subject, coordination.UseNames[part])
	}
	spent[coordination.UsedRequests], spent[coordination.UsedAnswers] = 0, 0 // counted before
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quotaPatience)
	defer cancel()
	var err error
	if len(reserved) == 0 && spent != (coordination.Use{}) &&
		m.bounds(coordination.UsedTokens, coordination.UsedMoney) {
		_, err = m.store.TakeQuota(ctx, m.subject, "", spent, coordination.Unlimited)
	}
	for i, id := range reserved {
		used := coordination.Use{coordination.UsedAnswers: 1}
		if i == 0 {
			used = used.Plus(spent)
		}
		if failed := m.store.SettleQuota(ctx, m.subject, id, used); failed != nil {
			err = failed
		}
	}
	if err != nil {
		m.log.Warn("what a request used is not counted, or its whole reservation is until midnight UTC",
			"subject", m.subject, "tokens", spent[coordination.UsedTokens],
			"money", formatPart(coordination.UsedMoney, spent[coordination.UsedMoney]), "code", string(fault.CodeOf(err)))
	}
}
