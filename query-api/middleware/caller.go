package middleware

import (
	"context"
	"path"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Caller is who asks.
type Caller struct {
	id      string // of its key, or token; empty: it showed neither
	scope   access.Scope
	index   string // glob
	account *account
	readers core.Readers // what it may read where documents have labels
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

// Readers returns what the caller may read of an index whose documents have labels.
func (c *Caller) Readers() core.Readers { return c.readers }

// NeedAllDocuments returns the error of a caller who asks for what tells of all documents of an index, where these have
// labels and it may not read every one.
func (c *Caller) NeedAllDocuments(index string) error {
	if c.readers.All {
		return nil
	}
	return fault.Forbidden.At("describe all documents of", index).
		Because("its documents have labels, and the API key may not read every one").
		Advise("create a key with: unweaver keys create --labels '*'")
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

// enterRequest counts a request in, or says why it has to wait.
func (c *Caller) enterRequest() (leave func(), err error) { return c.account.enterRequest() }

// AdmitAnswer admits a question that the chat model is to answer.
func (c *Caller) AdmitAnswer() error { return c.account.checkMoney() }

// Spend counts what an answer cost.
func (c *Caller) Spend(money float64) { c.account.addSpent(money) }
