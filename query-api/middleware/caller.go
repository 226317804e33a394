package middleware

import (
	"context"
	"path"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
)

// Caller is who asks.
type Caller struct {
	scope   access.Scope
	index   string // glob
	account *account
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

// Includes reports whether the caller may do what needs a scope.
func (c *Caller) Includes(scope access.Scope) bool { return c.scope.Includes(scope) }

// RequireScope returns the error of a caller whose scope is too narrow.
func (c *Caller) RequireScope(scope access.Scope) error {
	if c.Includes(scope) {
		return nil
	}
	return fault.Forbidden.At("use this address", "").
		Because("the key has the scope " + string(c.scope)).
		Advise("it takes one of the scope " + string(scope))
}

// NeedAll returns the error of a caller whose key is not for every index.
func (c *Caller) NeedAll() error {
	if c.index == "*" {
		return nil
	}
	return fault.Forbidden.At("answer", "").
		Because("the key is for the indexes " + c.index).
		Advise("what is asked for shows all of them: it takes a key made with --index '*'")
}

// MayRead reports whether the caller may know of an index.
func (c *Caller) MayRead(index string) bool {
	ok, err := path.Match(c.index, index)
	return err == nil && ok && c.Includes(access.Query)
}

// enterRequest counts a request in, or says why it has to wait.
func (c *Caller) enterRequest() (leave func(), err error) { return c.account.enterRequest() }

// AdmitAnswer admits a question that the chat model is to answer.
func (c *Caller) AdmitAnswer() error { return c.account.checkMoney() }

// Spend counts what an answer cost.
func (c *Caller) Spend(money float64) { c.account.addSpent(money) }
