package middleware

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// SignOn knows people by an identity provider; package signon does. Errors are faults.
type SignOn interface {
	// Serves reports whether Serve answers a path: the metadata of this resource, and the steps of signing in.
	Serves(path string) bool
	// Serve answers one of these paths without asking for a key. What it returns is written as the answer.
	Serve(w http.ResponseWriter, request *http.Request) error
	// CheckToken returns who a bearer token names.
	CheckToken(ctx context.Context, text string) (*access.Person, error)
	// CheckSession returns who signed in at the page that sends a request, or nil.
	CheckSession(request *http.Request) *access.Person
	// Challenge returns the parameters of WWW-Authenticate that say how to sign on for a path.
	Challenge(path string) string
}

// isToken reports whether a text is a token rather than a key: keys hold no dots.
func isToken(text string) bool { return strings.Contains(text, ".") }

// provePerson returns the person that a token names, or without a key and a token that of a session. It returns nil
// where the caller is to be proven otherwise.
func (g *Guard) provePerson(request *http.Request, text string) (*Caller, error) {
	if g.policy.SignOn == nil {
		return nil, nil //nolint:nilnil // keys prove the caller
	}
	var person *access.Person
	switch {
	case text == "":
		if person = g.policy.SignOn.CheckSession(request); person == nil {
			return nil, errSignOn
		}
	case isToken(text):
		var err error
		if person, err = g.policy.SignOn.CheckToken(request.Context(), text); err != nil {
			return nil, err
		}
	}
	if person == nil {
		return nil, nil //nolint:nilnil // keys prove the caller
	}
	id := "sub:" + person.Subject // no key has such an id
	account, quota := g.limits.ofPerson(id, person.Groups)
	return &Caller{
		id: id, subject: person.Subject, grants: person.Grants, account: account, quota: quota,
		readers: core.Readers{Labels: person.Labels}, // a group may have the name of every document
	}, nil
}

// serveSignOn answers what sign-on itself serves: pages of other origins lead there, and no key is asked for.
func (g *Guard) serveSignOn(w *writer, request *http.Request) (served bool) {
	if g.policy.SignOn == nil || !g.policy.SignOn.Serves(request.URL.Path) {
		return false
	}
	err := g.checkHost(request)
	if err == nil {
		var leave func()
		if leave, err = g.addressCaller(request).enterRequest(request); err == nil {
			defer leave()
			err = g.policy.SignOn.Serve(w.ResponseWriter, request) // it redirects, which w would make a problem
		}
	}
	if err != nil {
		g.fail(w.ResponseWriter, request, err) // a browser gets a page
	}
	return true
}

// challengeCaller returns WWW-Authenticate of a request that proves no caller.
func (g *Guard) challengeCaller(request *http.Request) string {
	out := `Bearer realm="unweaver"`
	if g.policy.SignOn == nil {
		return out
	}
	if isToken(ReadKey(request)) {
		out += `, error="invalid_token"`
	}
	return out + ", " + g.policy.SignOn.Challenge(request.URL.Path)
}

// Subject returns the subject of a person who signed on, or empty.
func (c *Caller) Subject() string { return c.subject }

// ForRoute returns the request as a route of a scope takes it: its caller has the grants alone that include the scope,
// as what one group allows on one index, another group does not carry to another index. index may be empty.
func ForRoute(request *http.Request, scope access.Scope, index string) (*http.Request, error) {
	caller := CallerOf(request.Context())
	if caller.subject == "" {
		return request, caller.RequireScope(scope)
	}
	narrowed := *caller
	narrowed.index = index
	narrower := func(grant access.Grant) bool { return !grant.Scope.Includes(scope) }
	narrowed.grants = slices.DeleteFunc(slices.Clone(caller.grants), narrower)
	if len(narrowed.grants) == 0 || index != "" && caller.MayRead(index) && !narrowed.MayRead(index) {
		return request, caller.refuseScope(scope)
	}
	return request.WithContext(withCaller(request.Context(), &narrowed)), nil
}

// errSignOn is the error of a request without a key where people can sign on.
var errSignOn = fault.Unauthorized.At("check the API key", "").
	Because("the request has no API key and no token").
	Advise("send the header Authorization: Bearer KEY with an API key or a token of the identity provider, or sign in " +
		"at the page")
