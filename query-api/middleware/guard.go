// Package middleware stands before the routes of query-api: who asks, from which page, for which host, how fast, and
// how slowly (docs/reference/formats.md, HTTP). It knows nothing of indexes; handlers ask it what the caller may.
//
//	guard.go   the policy, and the order in which a request is looked at
//	cors.go    pages of other origins that may ask
//	caller.go  who asks, as handlers see it
//	signon.go  people who sign on at an identity provider
//	limits.go  rate, concurrency and money of a caller
//	writer.go  deadlines of bodies and answers, headers of every answer
//	body.go    bodies of JSON: how long and how deep they may be
//	tls.go     certificates
//	quotas.go  what keys and groups may use in a day, over all replicas
package middleware

import (
	"context"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Keys finds the key that a text is; access.Ring does.
type Keys interface {
	Check(ctx context.Context, text string) (*access.Key, error)
}

// Policy is what a server asks of requests. The zero value asks for nothing; a server that is reached beyond loopback
// must not have it unless that is meant.
type Policy struct {
	Keys   Keys   // who may ask; where not Required, a valid key narrows what its caller may
	Token  string // accepted like a key of scope admin; empty: none
	Hosts  []string
	Limits access.Limits

	Origins []string // of pages that may ask besides the server's own
	SignOn  SignOn   // checks tokens of an identity provider and sessions of the page; nil: keys alone

	Required bool // every request needs a key, but for Open
	Passed   bool // where not Required, one that a proxy passed on needs a key: who asks it is not on this machine
	AnyHost  bool // every Host is answered
	Public   bool // it is meant that everybody may ask

	BodyTimeout  time.Duration // for a whole body; 0: 15 s
	WriteTimeout time.Duration // for each 32 KiB of an answer; 0: 15 s

	Quotas *Quotas // nil: none
}

// NewPolicy makes the policy of a listener of a configuration. Without a key only loopback may ask, unless
// that is said twice.
func NewPolicy(settings config.QueryAPI, listens net.Addr, keys Keys) (Policy, error) {
	local := IsLoopback(listens)
	out := Policy{
		Keys: keys, Hosts: settings.Hosts, Public: settings.Public, Origins: settings.CORS.Origins,
		Limits: access.Limits{
			RequestsPerSecond: settings.Limits.RequestsPerSecond, Burst: settings.Limits.Burst,
			Concurrency: settings.Limits.Concurrency, AnswersPerMinute: settings.Limits.AnswersPerMinute,
			MoneyPerDay: settings.Limits.AnswerMoneyPerDay,
		},
	}
	out.AnyHost = !local && len(out.Hosts) == 0
	switch settings.Auth {
	case "required":
		out.Required = true
	case "none":
		if !local && !settings.Public {
			return out, fault.BadConfig.At("serve queries at", listens.String()).
				Because("query_api.auth is none, and the address is reachable from other machines").
				Advise("remove query_api.auth and create keys with: unweaver keys create; or set query_api.public: true")
		}
	default:
		foreign := func(name string) bool { return !isLocalName(nameOf(name)) }
		out.Required = !local || slices.ContainsFunc(out.Hosts, foreign)
		out.Passed = true
	}
	out.Required = out.Required || settings.OIDC.IsOn()
	if !out.Required && slices.Contains(out.Origins, AnyOrigin) {
		return out, fault.BadConfig.At("serve queries at", listens.String()).
			Because("query_api.cors.origins is * and no API key is required, so any web page could query it").
			Advise("list the allowed origins in query_api.cors.origins, or set query_api.auth: required")
	}
	return out, nil
}

// IsLoopback reports whether only this machine reaches an address.
func IsLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Guard applies a policy.
type Guard struct {
	policy Policy
	limits *limits
	origin *http.CrossOriginProtection
	fail   Fail
}

// Fail writes an error as the answer.
type Fail func(w http.ResponseWriter, request *http.Request, err error)

// New makes a guard that writes errors by fail.
func New(policy Policy, fail Fail) *Guard {
	if policy.BodyTimeout == 0 {
		policy.BodyTimeout = 15 * time.Second
	}
	if policy.WriteTimeout == 0 {
		policy.WriteTimeout = 15 * time.Second
	}
	limits := newLimits(policy.Limits)
	limits.quotas = policy.Quotas
	return &Guard{
		policy: policy, limits: limits, origin: http.NewCrossOriginProtection(), fail: fail,
	}
}

// IsOpen reports whether a request needs no key: /livez says nothing but that the process answers, the page and the
// description of the API hold no data.
func IsOpen(request *http.Request) bool {
	get := request.Method == http.MethodGet || request.Method == http.MethodHead
	switch request.URL.Path {
	case "/livez", "/", described, "/page/app.js", "/page/style.css", "/page/icon.svg":
		return get
	}
	return false
}

// described is the path of the API's description. It is long, so that it counts towards the limits of who asks.
const described = "/openapi.json"

// Wrap lets through what the policy allows. self reports requests whose handler finds out who asks.
func (g *Guard) Wrap(next http.Handler, self func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, request *http.Request) {
		writer := g.newWriter(plain, request)
		defer writer.limitWrites()
		if g.serveSignOn(writer, request) {
			return
		}
		preflight := g.setCORS(writer.Header(), request)
		if err := g.checkOrigin(request); err != nil {
			g.fail(writer, request, err)
			return
		}
		if preflight {
			writer.WriteHeader(http.StatusNoContent)
			return
		}
		caller, err := g.identifyCaller(request, self(request))
		if err != nil {
			if fault.Is(err, fault.Unauthorized) {
				writer.Header().Set("WWW-Authenticate", g.challengeCaller(request))
			}
			if request.ProtoMajor == 1 && request.ContentLength != 0 { // a body that no route asked for is not read to its end
				writer.Header().Set("Connection", "close") // HTTP/2 ends that stream alone
			}
			g.fail(writer, request, err)
			return
		}
		request = request.WithContext(withCaller(request.Context(), caller))
		if !IsOpen(request) || request.URL.Path == described {
			leave, err := caller.enterRequest(request)
			if err != nil {
				g.fail(writer, request, err)
				return
			}
			defer leave()
		}
		next.ServeHTTP(writer, request)
	})
}

// checkOrigin checks for whom a request is meant and where it comes from: a page of another origin may neither read
// through a name that it points here, nor spend money by a form.
func (g *Guard) checkOrigin(request *http.Request) error {
	if err := g.checkHost(request); err != nil {
		return err
	}
	if !ofBrowser(request) || IsOpen(request) || g.allowsOrigin(request) {
		return nil
	}
	unsafe := *request
	unsafe.Method = http.MethodPost // reading across origins is of no use to anybody either
	if err := g.origin.Check(&unsafe); err != nil {
		return fault.Forbidden.At("answer a page of another origin", request.Header.Get("Origin")).
			Because("browsers may call this server from its own page only").
			Advise("call this server from the backend of that page with an API key, or add the page's origin to " +
				"query_api.cors.origins")
	}
	return nil
}

// checkHost refuses a request for a Host that is not this server's.
func (g *Guard) checkHost(request *http.Request) error {
	if g.policy.AnyHost || g.knowsHost(request.Host) {
		return nil
	}
	return fault.Misdirected.At("answer for host", request.Host).
		Because("the server does not accept this host name").
		Advise("add the name to query_api.hosts")
}

// ofBrowser reports whether a request says which page it comes from; those of programs do not.
func ofBrowser(request *http.Request) bool {
	return request.Header.Get("Sec-Fetch-Site") != "" || request.Header.Get("Origin") != ""
}

// knowsHost reports whether a Host is this server's.
func (g *Guard) knowsHost(host string) bool {
	name := nameOf(host)
	return isLocalName(name) ||
		slices.ContainsFunc(g.policy.Hosts, func(known string) bool { return strings.EqualFold(known, name) })
}

// nameOf returns the name, or address, of a Host, without its port.
func nameOf(host string) string {
	if alone, _, err := net.SplitHostPort(host); err == nil {
		host = alone
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isLocalName reports whether a name is this machine's loopback.
func isLocalName(name string) bool {
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}

// NeedJSON refuses bodies that a page of another origin could send without asking.
func NeedJSON(request *http.Request) error {
	kind, parameters, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if packed := request.Header.Get("Content-Encoding"); packed != "" && !strings.EqualFold(packed, "identity") {
		return fault.MediaType.At("read body", "").
			Because("its Content-Encoding is " + fault.QuoteName(packed)).
			Advise("send the body uncompressed")
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fault.MediaType.At("read body", "").
			Because("its charset is " + fault.QuoteName(charset)).
			Advise("send UTF-8")
	}
	if err != nil || kind != "application/json" {
		return fault.MediaType.At("read body", "").
			Because("the Content-Type is not JSON").
			Advise("send Content-Type: application/json")
	}
	return nil
}

var errNoKey = fault.Unauthorized.At("check the API key", "").
	Because("the request has no API key").
	Advise("send the header Authorization: Bearer KEY; create a key with: unweaver keys create")

// ReadKey returns the key of a request, or empty.
func ReadKey(request *http.Request) string {
	if scheme, text, ok := strings.Cut(request.Header.Get("Authorization"), " "); ok &&
		strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(text)
	}
	return strings.TrimSpace(request.Header.Get("X-API-Key"))
}

// passedOn are headers that proxies add.
var passedOn = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// identifyCaller finds out who asks.
func (g *Guard) identifyCaller(request *http.Request, self bool) (*Caller, error) {
	if self || IsOpen(request) {
		return g.addressCaller(request), nil
	}
	caller, err := g.proveCaller(request)
	passed := g.policy.Passed &&
		slices.ContainsFunc(passedOn, func(name string) bool { return request.Header.Get(name) != "" })
	if err != nil && !g.policy.Required && !passed { // clients that must send a key send any text
		caller = g.addressCaller(request)
		if !fault.Is(err, fault.Unauthorized) {
			caller.unproved = err
		}
		return caller, nil
	}
	return caller, err
}

// proveCaller returns the caller that the token or a valid key proves.
func (g *Guard) proveCaller(request *http.Request) (*Caller, error) {
	text := ReadKey(request)
	if caller, err := g.provePerson(request, text); caller != nil || err != nil {
		return caller, err
	}
	switch {
	case text == "":
		return nil, errNoKey
	case g.policy.Token != "" && subtle.ConstantTimeCompare([]byte(text), []byte(g.policy.Token)) == 1:
		return &Caller{
			id: TokenID, grants: grantAll(access.Admin), account: unlimited, readers: core.Readers{All: true},
		}, nil
	case g.policy.Keys == nil:
		return nil, errNoKey
	}
	key, err := g.policy.Keys.Check(request.Context(), text)
	if err != nil {
		return nil, err
	}
	account := g.limits.ofKey(key)
	return &Caller{
		id: key.ID, grants: []access.Grant{key.Grant()}, account: account, quota: account.quota,
		readers: core.ReadersOf(key.Labels),
	}, nil
}

// TokenID is the id of a caller who has the token.
const TokenID = "token"

// addressCaller returns the caller where no key is asked for.
func (g *Guard) addressCaller(request *http.Request) *Caller {
	caller := &Caller{grants: grantAll(access.Admin), account: unlimited}
	if at, err := netip.ParseAddrPort(request.RemoteAddr); err == nil && !at.Addr().IsLoopback() {
		caller.account = g.limits.ofAddress(at.Addr())
	}
	return caller
}

type callerKey struct{}

func withCaller(ctx context.Context, caller *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}
