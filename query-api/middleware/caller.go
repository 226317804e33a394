package middleware

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Caller is who asks.
type Caller struct {
	id      string // of its key, token or person; empty: it showed none of them
	subject string // of a person who signed on; empty: another caller
	grants  []access.Grant
	index   string // that the request is about; empty: none, or several
	account *account
	quota   *quota       // nil: none
	readers core.Readers // what it may read where documents have labels
	meter   *meter       // of this request; nil: the caller has no quota

	unproved error // why a key that the caller showed could not be looked up
}

// grantAll returns a scope on every index.
func grantAll(scope access.Scope) []access.Grant { return []access.Grant{{Scope: scope, Index: "*"}} }

// noCaller is the caller of a request that did not pass a guard: it may do nothing.
var noCaller = &Caller{account: unlimited}

// CallerOf gives the caller of a request.
func CallerOf(ctx context.Context) *Caller {
	if caller, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return caller
	}
	return noCaller
}

// ID returns the id of the key that the caller showed, "token" for the token of the data directory, "sub:" and the
// subject for a person, or empty.
func (c *Caller) ID() string { return c.id }

// NeedProof returns the error of a caller who showed neither a valid key nor the token, or whose key could not be
// looked up.
func (c *Caller) NeedProof() error {
	switch {
	case c.id != "":
		return nil
	case c.unproved != nil:
		return c.unproved
	}
	return errNoKey
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

// Includes reports whether the caller may do what needs a scope, on the index that the request is about. A person's
// groups may allow more on one index than on another: a request about no single index has what all of them allow.
func (c *Caller) Includes(scope access.Scope) bool {
	includes := func(grant access.Grant) bool { return grant.Scope.Includes(scope) }
	if c.index != "" {
		covers := func(grant access.Grant) bool { return grant.Covers(c.index) && includes(grant) }
		return slices.ContainsFunc(c.grants, covers)
	}
	return len(c.grants) > 0 && !slices.ContainsFunc(c.grants, func(grant access.Grant) bool { return !includes(grant) })
}

// RequireScope returns the error of a caller whose scope is too narrow.
func (c *Caller) RequireScope(scope access.Scope) error {
	if c.Includes(scope) {
		return nil
	}
	return c.refuseScope(scope)
}

// refuseScope returns the error of a caller who lacks a scope.
func (c *Caller) refuseScope(scope access.Scope) error {
	if c.subject != "" {
		return fault.Forbidden.At("use this address", "").
			Because("no group of the person who signed on has the scope " + string(scope) + " here").
			Advise("ask the operator for a group with this scope (query_api.oidc.groups)")
	}
	var have access.Scope
	if len(c.grants) > 0 {
		have = c.grants[0].Scope
	}
	return fault.Forbidden.At("use this address", "").
		Because("the API key has the scope " + string(have)).
		Advise("use a key with the scope " + string(scope))
}

// NeedAll returns the error of a caller whose key is not for every index.
func (c *Caller) NeedAll() error {
	if slices.ContainsFunc(c.grants, func(grant access.Grant) bool { return grant.Index == "*" }) {
		return nil
	}
	refused := fault.Forbidden.At("answer", "")
	if c.subject != "" {
		return refused.Because("no group of the person who signed on covers all indexes").
			Advise("ask the operator for a group with the pattern * (query_api.oidc.groups)")
	}
	var index string
	if len(c.grants) > 0 {
		index = c.grants[0].Index
	}
	return refused.Because("the API key covers only the indexes " + index).
		Advise("this request needs access to all indexes: create a key with unweaver keys create --index '*'")
}

// MayRead reports whether the caller may know of an index.
func (c *Caller) MayRead(index string) bool {
	return slices.ContainsFunc(c.grants, func(grant access.Grant) bool {
		return grant.Covers(index) && grant.Scope.Includes(access.Query)
	})
}
