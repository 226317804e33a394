package core

import (
	"net"
	"net/url"
	"strings"
)

// DefaultEndpoint of provider openai.
const DefaultEndpoint = "https://api.openai.com/v1"

// NoTrustDomain has results of a model shared by all who ask a model of that name, wherever.
const NoTrustDomain = "none"

// Trust says in whose answers a generation trusts, model by model; empty for models that are not asked over a network,
// and for those of NoTrustDomain.
type Trust struct {
	Chat      string `json:"chat,omitempty"` // of extraction
	Embedding string `json:"embedding,omitempty"`

	Shortening string `json:"shortening,omitempty"`
	Vision     string `json:"vision,omitempty"`
	Parser     string `json:"parser,omitempty"` // the server of documents.parser
}

// Domain is whose answers the model's are (docs/reference/formats.md, Identity).
func (m ChatModel) Domain() string { return domainOf(m.Provider, m.TrustDomain, m.BaseURL) }

// Domain is whose answers the model's are (docs/reference/formats.md, Identity).
func (m EmbedModel) Domain() string { return domainOf(m.Provider, m.TrustDomain, m.BaseURL) }

func domainOf(provider, configured, baseURL string) string {
	switch {
	case provider != "openai" || configured == NoTrustDomain:
		return ""
	case configured != "":
		return normalizeURL(configured)
	case baseURL != "":
		return normalizeURL(baseURL)
	}
	return DefaultEndpoint
}

// normalizeURL returns scheme, host, port and path of a URL, without what stands for a user or a query; other text
// stays.
func normalizeURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		return text
	}
	scheme, host := strings.ToLower(parsed.Scheme), strings.ToLower(parsed.Hostname())
	port := parsed.Port()
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return scheme + "://" + host + strings.TrimRight(parsed.Path, "/")
}
