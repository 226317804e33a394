package config

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
)

// Known values.
var (
	Methods    = []string{"hybrid", "unweaver", "ppr", "aligned", "vector", "bm25"}
	Rules      = []string{"weighted", "av", "sav", "pav", "seqpav", "cc", "seqcc", "phragmen", "mes"}
	strategies = []string{"text", "fixed", "document"}
)

func (l *loader) place(path string) place {
	for p := path; ; {
		if at, ok := l.cfg.places[p]; ok {
			return at
		}
		i := strings.LastIndexByte(p, '.')
		if i < 0 {
			return place{source: path}
		}
		p = p[:i]
	}
}

func (l *loader) oneOf(path, v string, known ...string) {
	if !slices.Contains(known, v) {
		l.bad(l.place(path), "%s: %q is not known; use %s", path, v, strings.Join(known, ", "))
	}
}

func (l *loader) check(ok bool, path, format string, args ...any) {
	if !ok {
		l.bad(l.place(path), path+": "+format, args...)
	}
}

// validate checks values and joins every mistake.
func (l *loader) validate() {
	c := l.cfg
	l.models("models", c.Models, false)
	l.oneOf("stores.milvus.load", c.Stores.Milvus.Load, "insert", "import")
	l.oneOf("stores.milvus.index", c.Stores.Milvus.Index, "hnsw", "ivf")
	for n, x := range c.Indexes {
		p := "indexes." + n
		l.check(corpus.ValidSlug(n), p, "a name has letters a-z, digits and hyphens, at most 63, and starts with no hyphen")
		l.oneOf(p+".chunking.strategy", x.Chunking.Strategy, strategies...)
		l.oneOf(p+".chunking.boundaries", x.Chunking.Boundaries, "stable", "packed")
		l.check(x.Chunking.MaxTokens >= 50 && x.Chunking.MaxTokens <= 8000, p+".chunking.max_tokens", "want 50 to 8000, got %d", x.Chunking.MaxTokens)
		l.check(x.Chunking.Overlap >= 0 && x.Chunking.Overlap < x.Chunking.MaxTokens, p+".chunking.overlap", "want 0 to less than max_tokens, got %d", x.Chunking.Overlap)
		l.check(x.Chunking.Overlap == 0 || x.Chunking.Strategy == "fixed", p+".chunking.overlap", "only strategy fixed has an overlap")
		l.check(x.Shortening.Threshold >= 200, p+".shortening.threshold", "want at least 200 runes, got %d", x.Shortening.Threshold)
		l.check(x.Shortening.Sample >= 1, p+".shortening.sample", "want at least 1 mention, got %d", x.Shortening.Sample)
		l.oneOf(p+".retrieval.method", x.Retrieval.Method, Methods...)
		l.oneOf(p+".retrieval.rule", x.Retrieval.Rule, Rules...)
		l.check(x.Retrieval.TopChunks >= 1 && x.Retrieval.TopChunks <= 100, p+".retrieval.top_chunks", "want 1 to 100, got %d", x.Retrieval.TopChunks)
		l.check(x.Keep >= 1, p+".keep", "want at least 1, got %d", x.Keep)
		_, err := time.ParseDuration(x.Grace)
		l.check(err == nil, p+".grace", "%q is no duration such as 24h", x.Grace)
		l.check(x.Failures.Share >= 0 && x.Failures.Share <= 1, p+".failures.share", "want 0 to 1, got %g", x.Failures.Share)
		l.check(x.Gate.MaxRemoved >= 0 && x.Gate.MaxRemoved <= 1, p+".gate.max_removed", "want 0 to 1, got %g", x.Gate.MaxRemoved)
		l.models(p+".models", x.Models, true)
	}
}

// models checks models; partial ones only override.
func (l *loader) models(p string, m Models, partial bool) {
	if !partial || m.Chat.Provider != "" {
		l.oneOf(p+".chat.provider", m.Chat.Provider, "builtin", "openai", "recorded")
		l.check(m.Chat.Provider != "openai" || m.Chat.Model != "" || partial, p+".chat.model", "provider openai needs a model")
		l.check(m.Chat.Provider != "recorded" || m.Chat.File != "" || partial, p+".chat.file", "provider recorded needs a file")
	}
	if !partial || m.Embedding.Provider != "" {
		l.oneOf(p+".embedding.provider", m.Embedding.Provider, "builtin", "openai")
		l.check(m.Embedding.Provider != "openai" || m.Embedding.Model != "" || partial, p+".embedding.model", "provider openai needs a model")
	}
	if !partial {
		l.oneOf(p+".embedding.classes", m.Embedding.Classes, "model", "lexical")
		l.oneOf(p+".chat.mode", m.Chat.Mode, "online")
	}
	for path, u := range map[string]string{p + ".chat.base_url": m.Chat.BaseURL, p + ".embedding.base_url": m.Embedding.BaseURL} {
		if u == "" {
			continue
		}
		x, err := url.Parse(u)
		l.check(err == nil && (x.Scheme == "http" || x.Scheme == "https") && x.Host != "", path, "%q is no http(s) URL", u)
	}
	l.check(m.Embedding.Dimension >= 0 && m.Embedding.Dimension <= 32768, p+".embedding.dimension", "want 0 to 32768, got %d", m.Embedding.Dimension)
	l.check(m.Embedding.MaxInputTokens >= 0, p+".embedding.max_input_tokens", "must not be negative")
	l.check(m.Limits.Concurrency >= 0 && m.Limits.Concurrency <= 10000, p+".limits.concurrency", "want 0 to 10000, got %d", m.Limits.Concurrency)
	l.check(m.Limits.RequestsPerMinute >= 0 && m.Limits.TokensPerMinute >= 0, p+".limits", "limits must not be negative")
}
