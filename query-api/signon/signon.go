// Package signon lets people use query-api as the groups that an identity provider gives them (docs/guides/sign-on.md):
// with a token in the header, or with the session that the page gets by signing in. Tokens are verified here and passed
// on to no one; no log line and no error holds one.
//
//	signon.go    the service, and what it serves
//	token.go     verifying tokens, and what their groups allow
//	keys.go      the issuer's keys: fetching, rotation, outage
//	client.go    the bounds of requests to the issuer
//	page.go      signing in and out at the page
//	exchanges.go the bounds of signing in
//	session.go   sealed cookies
package signon

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// Paths that the service answers.
const (
	MetadataPath = "/.well-known/oauth-protected-resource" // RFC 9728; of a resource with a path, that path follows
	LoginPath    = "/oidc/login"
	CallbackPath = "/oidc/callback"
	LogoutPath   = "/oidc/logout"

	mcpPath = "/mcp"
)

// Paths are all of them. Those of the page are answered only where people sign in there.
var Paths = []string{MetadataPath, MetadataPath + mcpPath, LoginPath, CallbackPath, LogoutPath}

// Service signs people on. Make it with New.
type Service struct {
	settings config.QueryOIDC
	url      string   // of this server, without a slash at its end
	accepted []string // audiences
	grants   map[string][]access.Grant
	keys     *keySet
	log      *slog.Logger
	now      func() time.Time

	secret string // of the client
	seal   *sealer
	codes  *exchanges
}

var _ middleware.SignOn = (*Service)(nil)

// AddTo has a policy take tokens and sessions, and require a caller, where the configuration names an issuer. The
// issuer is asked when the first token comes, so that it may be away when this process starts.
func AddTo(policy *middleware.Policy, settings config.QueryOIDC, log *slog.Logger) error {
	if !settings.IsOn() {
		return nil
	}
	service, err := New(settings, log, time.Now)
	if err == nil {
		policy.SignOn, policy.Required = service, true
	}
	return err
}

// New makes the service of a checked configuration.
func New(settings config.QueryOIDC, log *slog.Logger, now func() time.Time) (*Service, error) {
	url := settings.PublicURL()
	service := &Service{
		settings: settings, url: url, grants: map[string][]access.Grant{}, log: log, now: now,
		accepted: []string{trimSlash(settings.Audience), url, url + mcpPath},
		keys:     newKeySet(settings, log, now),
		codes:    newExchanges(),
	}
	for _, group := range settings.Groups {
		service.grants[group.Group] = append(service.grants[group.Group],
			access.NewGrants(group.Indexes, group.Scopes)...)
	}
	if settings.ClientID == "" {
		return service, nil
	}
	var err error
	if settings.ClientSecretFile != "" {
		if service.secret, err = readSecret("client_secret_file", settings.ClientSecretFile); err != nil {
			return nil, err
		}
	}
	service.seal, err = newSealer(settings)
	return service, err
}

// trimSlash returns an audience without the slash that issuers add to a URL or leave out.
func trimSlash(audience string) string {
	if strings.Contains(audience, "://") {
		return strings.TrimSuffix(audience, "/")
	}
	return audience
}

// Serves implements middleware.SignOn.
func (s *Service) Serves(path string) bool {
	return slices.Contains(Paths, path) && (s.seal != nil || strings.HasPrefix(path, MetadataPath))
}

// Serve implements middleware.SignOn.
func (s *Service) Serve(w http.ResponseWriter, request *http.Request) error {
	method, serve := http.MethodGet, s.serveMetadata
	switch request.URL.Path {
	case LoginPath:
		serve = s.beginSignIn
	case CallbackPath:
		serve = s.endSignIn
	case LogoutPath:
		method, serve = http.MethodPost, s.signOut
	default:
		w.Header().Set("Access-Control-Allow-Origin", "*") // agents in browsers read it; it holds no secret
		if request.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, OPTIONS")
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Mcp-Protocol-Version")
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	if request.Method != method {
		w.Header().Set("Allow", method)
		return fault.NoSuchMethod.At("find", "this address").
			Because("it does not support the method " + fault.QuoteName(request.Method)).Advise("use " + method)
	}
	return serve(w, request)
}

// Challenge implements middleware.SignOn.
func (s *Service) Challenge(path string) string {
	metadata := s.url + MetadataPath
	if path == mcpPath {
		metadata += mcpPath
	}
	out := `resource_metadata="` + metadata + `"`
	if s.seal != nil {
		out += `, sign_in="` + strings.TrimPrefix(LoginPath, "/") + `"` // the page reads it; relative to the page
	}
	return out
}

// serveMetadata says which issuer's tokens this resource takes (RFC 9728).
func (s *Service) serveMetadata(w http.ResponseWriter, request *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	return json.NewEncoder(w).Encode(oauthex.ProtectedResourceMetadata{
		Resource:               s.url + strings.TrimPrefix(request.URL.Path, MetadataPath),
		AuthorizationServers:   []string{s.settings.Issuer},
		ScopesSupported:        s.settings.ClientScopes,
		BearerMethodsSupported: []string{"header"},
		ResourceName:           "UnWeaver",
	})
}
