package middleware

import (
	"context"
	"net/http"
	"path"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Caller is who asks.
type Caller struct {
	id      string // of its key, or token; empty: it showed neither
	scope   access.Scope
	index   string // glob
	account *account
	meter   *meter // of this request; nil: the caller has no quota
}

// noCaller is the caller of a request that did not pass a guard: it may do nothing.
var noCaller = &Caller{account: unlimited}

// CallerOf gives the caller of a request.
func CallerOf(ctx context.Context) *Caller {
	if caller, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return caller
	}
	return noCaller
}

// ID returns the id of the key that the caller showed, "token" for the token of the data directory, or empty.
func (c *Caller) ID() string { return c.id }

// NeedProof returns the error of a caller who showed neither a key nor the token.
func (c *Caller) NeedProof() error {
	if c.id == "" {
		return errNoKey
	}
	return nil
}

// Includes reports whether the caller may do what needs a scope.
func (c *Caller) Includes(scope access.Scope) bool { return c.scope.Includes(scope) }

// RequireScope returns the error of a caller whose scope is too narrow.
func (c *Caller) RequireScope(scope access.Scope) error {
	if c.Includes(scope) {
		return nil
	}
	return fault.Forbidden.At("use this address", "").
		Because("the API key has the scope " + string(c.scope)).
		Advise("use a key with the scope " + string(scope))
}

// NeedAll returns the error of a caller whose key is not for every index.
func (c *Caller) NeedAll() error {
	if c.index == "*" {
		return nil
	}
	return fault.Forbidden.At("answer", "").
		Because("the API key covers only the indexes " + c.index).
		Advise("this request needs access to all indexes: create a key with unweaver keys create --index '*'")
}

// MayRead reports whether the caller may know of an index.
func (c *Caller) MayRead(index string) bool {
	ok, err := path.Match(c.index, index)
	return err == nil && ok && c.Includes(access.Query)
}

// enterRequest counts a request in, or returns why it has to wait. leave ends it.
func (c *Caller) enterRequest(request *http.Request) (leave func(), err error) {
	leaveAccount, err := c.account.enterRequest()
	if err != nil || c.meter == nil {
		return leaveAccount, err
	}
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
