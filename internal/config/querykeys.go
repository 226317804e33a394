package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// queryKeys are those of query-api, besides its address.
var queryKeys = []key{
	{
		path: "query_api.auth",
		meaning: "whether requests need an API key. auto: they do unless query-api listens on loopback alone; none " +
			"beyond loopback needs query_api.public too",
		example: "required",
		rule:    oneOf("auto", "required", "none"),
	},
	{
		path:    "query_api.public",
		meaning: "with auth: none, allow anyone who can reach the address to read every index and to spend money",
	},
	{
		path: "query_api.hosts",
		meaning: "names that a request's Host may have, without ports. On loopback they are added to " +
			"localhost and its addresses; elsewhere empty lets every name pass",
		example: "[search.example.org]",
		rule:    requireHosts(),
	},
	{
		path:    "query_api.tls.cert",
		meaning: "file of the certificate and its chain, in PEM; reloaded when it changes",
		example: "/etc/unweaver/tls.crt",
	},
	{
		path:    "query_api.tls.key",
		meaning: "file of the certificate's private key, in PEM",
		example: "/etc/unweaver/tls.key",
	},
	{
		path: "query_api.tls.acme.domains",
		meaning: "names to have certificates issued for by Let's Encrypt; query-api must be reached at " +
			"their port 443",
		example: "[search.example.org]",
		rule:    requireHosts(),
	},
	{
		path:    "query_api.tls.acme.email",
		meaning: "where Let's Encrypt reports problems",
		example: "operator@example.org",
	},
	{
		path:    "query_api.tls.acme.cache",
		meaning: "folder of issued certificates; acme.domains requires it",
		example: "/var/lib/unweaver/acme",
	},
	{
		path: "query_api.limits.requests_per_second",
		meaning: "maximum rate of requests of one key, or of one address without keys; 0: no limit. Each process counts " +
			"this and the limits below for itself. They do not apply to loopback without keys",
		unit:    "requests",
		example: "20",
		rule:    requireRange(0, million),
	},
	{
		path:    "query_api.limits.burst",
		meaning: "burst of requests after a pause",
		unit:    "requests",
		example: "50",
		rule:    requireRange(1, million),
	},
	{
		path:    "query_api.limits.concurrency",
		meaning: "concurrent requests; 0: no limit",
		unit:    "requests",
		example: "16",
		rule:    requireRange(0, million),
	},
	{
		path:    "query_api.limits.answers_per_minute",
		meaning: "questions with `answer: true`, also those answered by a quotation; 0: no bound",
		unit:    "requests",
		example: "30",
		rule:    requireRange(0, million),
	},
	{
		path: "query_api.limits.answer_money_per_day",
		meaning: "what a caller's answers and the embedding of its questions may cost in a day of UTC by models.*.price, " +
			"failed ones too; then it gets no more answers. What is in flight may overshoot it. Each process keeps its own " +
			"account and forgets it when it restarts. A refusal says in Retry-After when the day ends; 0: no bound",
		unit:    "money",
		example: "5",
		rule:    requireRange(0, 1e9),
	},
	{
		path:    "query_api.limits.connections",
		meaning: "maximum open connections of one process; 0: no limit",
		unit:    "connections",
		example: "1024",
		rule:    requireRange(0, million),
	},
	{
		path: "query_api.control",
		meaning: "let keys of scope operate build and steer indexes and upload documents over /v1: query-api then calls " +
			"Temporal (engine) and writes to corpora. unweaver dev always does",
	},
	{
		path:    "query_api.upload_bytes",
		meaning: "the largest document that an upload may have",
		unit:    "bytes",
		example: "1073741824",
		rule:    requireRange(1, 1<<40),
	},
	{
		path: "query_api.indexes.bytes",
		meaning: "what open indexes may hold, mapped files among them. An index is opened by the first request for it, and " +
			"those that are not in use are closed for others, the one used longest ago first; one in use never is. " +
			"0: half of the memory of the machine, or of the container where that is bounded",
		unit:    "bytes",
		example: "8589934592",
		rule:    requireRange(0, 1<<50),
	},
	{
		path: "query_api.indexes.ahead",
		meaning: "indexes that are opened at start, before /readyz says ready, as far as indexes.bytes holds them. empty: " +
			"the first 64 by name, as far as half of it does",
		example: "[handbook, tickets]",
		rule:    indexNames(),
	},
}

// requireHosts takes names of hosts.
func requireHosts() rule {
	return listOf("host names", newTextRule("", func(name string) string {
		if name == "" || strings.ContainsAny(name, "/ *") {
			return fmt.Sprintf("%q is not a host name", name)
		}
		return ""
	}))
}

// indexNames takes names of indexes.
func indexNames() rule {
	return listOf("names of indexes", newTextRule("", func(name string) string {
		if core.ValidIndex(name) {
			return ""
		}
		return fmt.Sprintf("%q is not a valid index name", name)
	}))
}

// corsKeys are those of web pages of other origins.
var corsKeys = []key{
	{
		path: "query_api.cors.origins",
		meaning: "origins whose web pages may ask from the browser, such as `https://app.example.org`; `*`, every page, " +
			"needs API keys. None by default. Keys are asked for all the same, in a header; cookies are never allowed",
		example: `["https://app.example.org"]`,
		rule:    requireOrigins(),
	},
}

// requireOrigins takes what browsers send as Origin: scheme, host and port.
func requireOrigins() rule {
	const values = "origins (scheme://host or scheme://host:port), or *"
	return listOf(values, newTextRule("", func(origin string) string {
		parsed, err := url.Parse(origin)
		if origin == "*" || err == nil && parsed.Host != "" && parsed.Scheme != "" &&
			strings.EqualFold(parsed.Scheme+"://"+parsed.Host, origin) {
			return ""
		}
		return fmt.Sprintf("%q is not an origin of the form scheme://host or scheme://host:port", origin)
	}))
}

// queryAPI checks what the keys of query-api ask of each other.
func (l *loader) queryAPI() {
	settings := l.cfg.QueryAPI
	files, authority := settings.TLS.Cert != "" || settings.TLS.Key != "", settings.TLS.ACME
	l.checkKey((settings.TLS.Cert == "") == (settings.TLS.Key == ""), "query_api.tls", "cert and key require each other")
	l.checkKey(!files || len(authority.Domains) == 0, "query_api.tls", "give files, or acme.domains, not both")
	l.checkKey(
		len(authority.Domains) == 0 || authority.Cache != "",
		"query_api.tls.acme.cache",
		"acme.domains needs a folder: else every start asks for new certificates, until the authority gives none",
	)
	l.checkOIDC()
}
