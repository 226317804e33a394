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
	config := l.cfg
	l.models("models", config.Models, false)
	l.oneOf("stores.milvus.load", config.Stores.Milvus.Load, "insert", "import")
	l.oneOf("stores.milvus.index", config.Stores.Milvus.Index, "hnsw", "ivf")
	for n, index := range config.Indexes {
		p := "indexes." + n
		l.check(
			corpus.ValidSlug(n),
			p,
			"a name has letters a-z, digits and hyphens, at most 63, and starts with no hyphen",
		)
		l.oneOf(p+".chunking.strategy", index.Chunking.Strategy, strategies...)
		l.oneOf(p+".chunking.boundaries", index.Chunking.Boundaries, "stable", "packed")
		l.check(
			index.Chunking.MaxTokens >= 50 && index.Chunking.MaxTokens <= 8000,
			p+".chunking.max_tokens",
			"want 50 to 8000, got %d",
			index.Chunking.MaxTokens,
		)
		l.check(
			index.Chunking.Overlap >= 0 && index.Chunking.Overlap < index.Chunking.MaxTokens,
			p+".chunking.overlap",
			"want 0 to less than max_tokens, got %d",
			index.Chunking.Overlap,
		)
		l.check(
			index.Chunking.Overlap == 0 || index.Chunking.Strategy == "fixed",
			p+".chunking.overlap",
			"only strategy fixed has an overlap",
		)
		l.check(
			index.Shortening.Threshold >= 200,
			p+".shortening.threshold",
			"want at least 200 runes, got %d",
			index.Shortening.Threshold,
		)
		l.check(
			index.Shortening.Sample >= 1,
			p+".shortening.sample",
			"want at least 1 mention, got %d",
			index.Shortening.Sample,
		)
		l.oneOf(p+".retrieval.method", index.Retrieval.Method, Methods...)
		l.oneOf(p+".retrieval.rule", index.Retrieval.Rule, Rules...)
		l.check(
			index.Retrieval.TopChunks >= 1 && index.Retrieval.TopChunks <= 100,
			p+".retrieval.top_chunks",
			"want 1 to 100, got %d",
			index.Retrieval.TopChunks,
		)
		l.check(index.Keep >= 1, p+".keep", "want at least 1, got %d", index.Keep)
		_, err := time.ParseDuration(index.Grace)
		l.check(err == nil, p+".grace", "%q is no duration such as 24h", index.Grace)
		l.check(
			index.Failures.Share >= 0 && index.Failures.Share <= 1,
			p+".failures.share",
			"want 0 to 1, got %g",
			index.Failures.Share,
		)
		l.check(
			index.Gate.MaxRemoved >= 0 && index.Gate.MaxRemoved <= 1,
			p+".gate.max_removed",
			"want 0 to 1, got %g",
			index.Gate.MaxRemoved,
		)
		l.models(p+".models", index.Models, true)
	}
}

// models checks models; partial ones only override.
func (l *loader) models(p string, models Models, partial bool) {
	if !partial || models.Chat.Provider != "" {
		l.oneOf(p+".chat.provider", models.Chat.Provider, "builtin", "openai", "recorded")
		l.check(
			models.Chat.Provider != "openai" || models.Chat.Model != "" || partial,
			p+".chat.model",
			"provider openai needs a model",
		)
		l.check(
			models.Chat.Provider != "recorded" || models.Chat.File != "" || partial,
			p+".chat.file",
			"provider recorded needs a file",
		)
	}
	if !partial || models.Embedding.Provider != "" {
		l.oneOf(p+".embedding.provider", models.Embedding.Provider, "builtin", "openai")
		l.check(
			models.Embedding.Provider != "openai" || models.Embedding.Model != "" || partial,
			p+".embedding.model",
			"provider openai needs a model",
		)
	}
	if !partial {
		l.oneOf(p+".embedding.classes", models.Embedding.Classes, "model", "lexical")
		l.oneOf(p+".chat.mode", models.Chat.Mode, "online")
	}
	for path, u := range map[string]string{p + ".chat.base_url": models.Chat.BaseURL, p + ".embedding.base_url": models.Embedding.BaseURL} {
		if u == "" {
			continue
		}
		x, err := url.Parse(u)
		l.check(
			err == nil && (x.Scheme == "http" || x.Scheme == "https") && x.Host != "",
			path,
			"%q is no http(s) URL",
			u,
		)
	}
	l.check(
		models.Embedding.Dimension >= 0 && models.Embedding.Dimension <= 32768,
		p+".embedding.dimension",
		"want 0 to 32768, got %d",
		models.Embedding.Dimension,
	)
	l.check(models.Embedding.MaxInputTokens >= 0, p+".embedding.max_input_tokens", "must not be negative")
	l.check(
		models.Limits.Concurrency >= 0 && models.Limits.Concurrency <= 10000,
		p+".limits.concurrency",
		"want 0 to 10000, got %d",
		models.Limits.Concurrency,
	)
	l.check(
		models.Limits.RequestsPerMinute >= 0 && models.Limits.TokensPerMinute >= 0,
		p+".limits",
		"limits must not be negative",
	)
}
