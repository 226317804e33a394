package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core/hostinfo"
	"github.com/unweaver/unweaver/internal/fault"
)

// QueryOIDC lets people sign on at an identity provider.
type QueryOIDC struct {
	Issuer      string      `yaml:"issuer"` // empty: API keys alone
	Audience    string      `yaml:"audience"`
	URL         string      `yaml:"url"` // of this server, as people and agents reach it; empty: the audience
	GroupsClaim string      `yaml:"groups_claim"`
	Algorithms  []string    `yaml:"algorithms"`
	Groups      []OIDCGroup `yaml:"groups"`

	ClientID         string   `yaml:"client_id"` // empty: no signing in at the page
	ClientSecretFile string   `yaml:"client_secret_file"`
	ClientScopes     []string `yaml:"client_scopes"`
	SessionKeyFile   string   `yaml:"session_key_file"`
}

// OIDCGroup is what the people of a group may do.
type OIDCGroup struct {
	Group   string   `yaml:"group" json:"group"`
	Indexes []string `yaml:"indexes" json:"indexes"` // patterns
	Scopes  []string `yaml:"scopes" json:"scopes"`
}

// IsOn reports whether tokens of an identity provider are taken.
func (o QueryOIDC) IsOn() bool { return o.Issuer != "" }

// PublicURL returns where this server is reached: an origin as browsers write it, without a path and the scheme's port.
func (o QueryOIDC) PublicURL() string {
	parsed, err := url.Parse(cmp.Or(o.URL, o.Audience))
	if err != nil {
		return ""
	}
	usual := map[string]string{"http": ":80", "https": ":443"}[parsed.Scheme]
	host := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(parsed.Host), usual), ":")
	return parsed.Scheme + "://" + host
}

// signatures are the algorithms that a token may be signed with: those whose keys verify and cannot sign.
var signatures = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// oidcKeys are those of sign-on.
var oidcKeys = []key{
	{
		path: "query_api.oidc.issuer",
		meaning: "identity provider (OpenID Connect) whose tokens query-api takes beside API keys; requests then need one " +
			"of them on loopback too. empty: API keys alone",
		example: "https://login.example.org/realms/main",
		rule:    allowEmpty(requireSafeURL(false)),
	},
	{
		path: "query_api.oidc.audience",
		meaning: "what `aud` of a token must name; tokens for `url` and for `url` with /mcp behind it are taken too " +
			"(RFC 8707)",
		example: "https://search.example.org",
	},
	{
		path: "query_api.oidc.url",
		meaning: "address at which people and agents reach this server, without a path: the resource of " +
			"/.well-known/oauth-protected-resource (RFC 9728), and where the page signs in. empty: `audience`",
		example: "https://search.example.org",
		rule:    allowEmpty(requireSafeURL(true)),
	},
	{
		path:    "query_api.oidc.groups_claim",
		meaning: "claim that holds the groups of a person: a list of texts, or one text; at most 1,000",
		example: "roles",
		rule:    notEmpty(),
	},
	{
		path:    "query_api.oidc.algorithms",
		meaning: "algorithms that a token may be signed with",
		example: "[PS256]",
		rule:    eachOf(signatures...),
	},
	{
		path: "query_api.oidc.groups",
		meaning: "what each group may do: its name exactly as in the token, patterns of indexes and scopes as keys have " +
			"them. Who is in none of these groups gets a 403",
		example: `[{group: staff, indexes: ["docs-*"], scopes: [query]}]`,
		rule:    rule{values: "mappings of group, indexes and scopes"},
	},
	{
		path: "query_api.oidc.client_id",
		meaning: "client of this server at the issuer: the page signs in with it, by authorization code and PKCE. Register " +
			"`url` with /oidc/callback behind it. empty: the page asks for an API key alone",
		example: "unweaver",
	},
	{
		path:    "query_api.oidc.client_secret_file",
		meaning: "file of the client's secret; empty: a public client",
		example: "/etc/unweaver/oidc-secret",
	},
	{
		path:    "query_api.oidc.client_scopes",
		meaning: "scopes that signing in asks the issuer for; some issuers name groups only with a scope for them",
		example: "[openid, groups]",
	},
	{
		path: "query_api.oidc.session_key_file",
		meaning: "file of at least 32 random bytes that seal the sessions of the page; replicas need the same one. empty: " +
			"each process draws its own, and a restart ends sessions",
		example: "/etc/unweaver/session.key",
	},
}

// IsSafeURL reports whether no one between reads or changes what a URL is asked for.
func IsSafeURL(address *url.URL) bool {
	return address.Hostname() != "" &&
		(address.Scheme == "https" || address.Scheme == "http" && hostinfo.IsLoopback(address.Hostname()))
}

// requireSafeURL takes https URLs, and http URLs of this machine. origin leaves no place for a path.
func requireSafeURL(origin bool) rule {
	values := "https URL; http on loopback"
	if origin {
		values += "; without a path"
	}
	return newTextRule(values, func(text string) string {
		parsed, err := url.Parse(text)
		switch {
		case err != nil || !IsSafeURL(parsed):
			return fmt.Sprintf("%q is not an https URL with a host; http is for loopback alone", hidePassword(text))
		case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" || strings.Contains(text, "#"):
			return fmt.Sprintf("%q must have no user, query or fragment", hidePassword(text))
		case origin && strings.Trim(parsed.Path, "/") != "":
			return fmt.Sprintf("%q must have no path", text)
		}
		return ""
	})
}

const oidcPath = "query_api.oidc"

// checkOIDC checks what the keys of sign-on ask of each other.
func (l *loader) checkOIDC() {
	settings := l.cfg.QueryAPI.OIDC
	if !settings.IsOn() {
		for name, given := range map[string]bool{
			"audience": settings.Audience != "", "url": settings.URL != "", "groups": len(settings.Groups) > 0,
			"client_id": settings.ClientID != "",
		} {
			l.checkKey(!given, oidcPath+"."+name, "requires query_api.oidc.issuer")
		}
		return
	}
	l.checkKey(l.cfg.QueryAPI.Auth != "none", "query_api.auth",
		"none lets everybody in: remove it, or query_api.oidc")
	l.checkKey(settings.Audience != "", oidcPath+".audience",
		"set it to what the issuer writes into tokens for this server: else tokens for other services would be taken")
	if settings.URL == "" && settings.Audience != "" {
		why := requireSafeURL(true).mistake(settings.Audience)
		l.checkKey(why == "", oidcPath+".url", "set it, as the audience is not the address of this server: %s", why)
	}
	l.checkKey(len(settings.Algorithms) > 0, oidcPath+".algorithms", "name at least one: %s",
		strings.Join(signatures, ", "))
	l.checkKey(len(settings.Groups) > 0, oidcPath+".groups", "map at least one group: else nobody may ask")
	for i, group := range settings.Groups {
		l.checkGroup(fmt.Sprintf("%s.groups.%d", oidcPath, i), group)
	}
	l.checkKey(settings.ClientID != "" || settings.ClientSecretFile == "", oidcPath+".client_secret_file",
		"requires client_id")
	l.checkKey(settings.ClientID != "" || settings.SessionKeyFile == "", oidcPath+".session_key_file",
		"requires client_id")
	l.checkKey(settings.ClientID == "" || slices.Contains(settings.ClientScopes, "openid"), oidcPath+".client_scopes",
		"openid must be one of them")
}

// checkGroup checks what one group may do.
func (l *loader) checkGroup(path string, group OIDCGroup) {
	l.checkKey(group.Group != "" && len(group.Group) <= 256 && !strings.ContainsFunc(group.Group, unicode.IsControl),
		path+".group", "want a name of 1 to 256 bytes without control characters")
	l.checkKey(len(group.Indexes) > 0, path+".indexes", `name at least one index or pattern; "*" is every index`)
	for _, index := range group.Indexes {
		request := access.Request{Scope: access.Query, Index: index}
		err := request.Validate()
		ok := index != "" && err == nil
		why := "it is empty"
		if err != nil {
			why = fault.As(err).Err.Error()
		}
		l.checkKey(ok, path+".indexes", "%q: %s", index, why)
	}
	l.checkKey(len(group.Scopes) > 0, path+".scopes", "name at least one of query, operate, admin")
	for _, scope := range group.Scopes {
		l.checkKey(slices.Contains(access.Scopes, access.Scope(scope)), path+".scopes",
			"%q is not known; use query, operate or admin", scope)
	}
}
