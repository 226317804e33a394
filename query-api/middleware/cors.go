package middleware

import (
	"net/http"
	"slices"
	"strings"
)

// Headers of cross-origin requests and answers (query_api.cors). Credentials that a browser keeps, such as cookies, are
// never allowed: a key is sent by the page's own script, in a header.
const (
	corsMethods = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
	corsHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, Mcp-Protocol-Version, " +
		"Mcp-Session-Id, X-API-Key, X-Request-Id"
	corsExposed = "Allow, ETag, Location, Mcp-Session-Id, Retry-After, Warning, WWW-Authenticate, X-Request-Id"
	corsMaxAge  = "600" // seconds
)

// AnyOrigin lets the pages of every origin ask; NewPolicy takes it only where a key is required.
const AnyOrigin = "*"

// allowsOrigin reports whether the page that asks is of an origin that the policy names.
func (g *Guard) allowsOrigin(request *http.Request) bool {
	origin := request.Header.Get("Origin")
	return origin != "" && len(g.policy.Origins) > 0 &&
		slices.ContainsFunc(g.policy.Origins, func(known string) bool {
			return known == AnyOrigin || strings.EqualFold(known, origin)
		})
}

// setCORS sets the headers that let an allowed page read the answer, and reports whether the request asks for no more
// than them: a preflight, which browsers send without a key.
func (g *Guard) setCORS(header http.Header, request *http.Request) (preflight bool) {
	if len(g.policy.Origins) == 0 {
		return false
	}
	header.Add("Vary", "Origin")
	if !g.allowsOrigin(request) {
		return false
	}
	header.Set("Access-Control-Allow-Origin", request.Header.Get("Origin"))
	header.Set("Access-Control-Expose-Headers", corsExposed)
	if request.Method != http.MethodOptions || request.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", corsMethods)
	header.Set("Access-Control-Allow-Headers", corsHeaders)
	header.Set("Access-Control-Max-Age", corsMaxAge)
	return true
}
