package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Spec is the resolved configuration of one index: what the command line stores as an artifact and passes by digest.
// Two specs with one ConfigDigest build the same generation from the same corpus.
type Spec struct {
	Index      string     `json:"index"`
	Corpus     string     `json:"corpus"` // absolute directory or s3://bucket/prefix
	Chunking   Chunking   `json:"chunking"`
	Shortening Shortening `json:"shortening"`
	Retrieval  Retrieval  `json:"retrieval"`
	Parity     bool       `json:"parity"`
	Keep       int        `json:"keep"`
	Grace      Duration   `json:"grace"`
	Budget     Budget     `json:"budget"`
	Failures   Failures   `json:"failures"`
	Gate       Gate       `json:"gate"`
	Chat       ChatModel  `json:"chat"`
	Embedding  EmbedModel `json:"embedding"`
	Limits     Limits     `json:"limits"`
	// Roles are the chat models of roles that are not Chat. See ChatOf.
	Roles map[string]ChatModel `json:"roles,omitempty"`
	// Rerank is who orders the chunks that a query found again; without a provider they stay as they are.
	Rerank RerankModel `json:"rerank,omitzero"`
	// Extraction says what the chat model extracts, and from which chunks; nil: the usual, from all.
	Extraction *Extraction `json:"extraction,omitempty"`
	// Answer says how queries are answered.
	Answer Answering `json:"answer,omitzero"`
	// FollowLinks lets links in a corpus that is a folder count as what they lead to, also outside the folder.
	FollowLinks bool `json:"follow_links,omitempty"`
	// Currency is what prices, costs and budgets of money are in, as people write it; empty: not set.
	Currency string `json:"currency,omitempty"`
	// Include and Exclude are patterns on the names of objects, relative to the corpus; ** stands for any folders. Without
	// Include all are included. They change which documents there are, not what is made of one.
	Include []string `json:"include,omitempty"`
	// Enrich names what a build makes beside what every generation has, in order. The config digest does not cover it: a
	// change makes, or drops, that alone.
	Enrich []string `json:"enrich,omitempty"`
	// Aliases is a file of names that mean the same: SentFile and a sum, the address of an object, or, before it is
	// sent with a run, a path. The config digest does not cover it: a change makes the documents again that name them.
	Aliases string   `json:"aliases,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// EnrichSettings are those of enrichments, by name, where they are not the usual ones. The config digest does not
	// cover them either.
	EnrichSettings map[string]json.RawMessage `json:"enrich_settings,omitempty"`
	// Documents says how documents are read; nil: as their bytes say.
	Documents *Documents `json:"documents,omitempty"`
	// Overlay are the settings among these that the store says and the file does not: of a branch, and of what is made
	// from one that was promoted. See Overlay.
	Overlay map[string]string `json:"overlay,omitempty"`
	// Pulled says that an image brought it. Then it says what a generation was made from, and nothing is read from its
	// corpus or written there.
	Pulled bool `json:"pulled,omitempty"`

	// Names is what the file of Aliases says, where a run has fixed it; it goes with no specification.
	Names Aliases `json:"-"`
}

// Documents says how documents are read where they do not say it themselves.
type Documents struct {
	Encoding []string `json:"encoding,omitempty"` // PATTERN=CHARSET, the first pattern that matches counts
	Types    []string `json:"types,omitempty"`    // PATTERN=TYPE, the first pattern that matches counts
	Hidden   string   `json:"hidden,omitempty"`   // include: what an Office document hides is read too

	Attachments bool `json:"attachments,omitempty"` // what is attached to a mail or a PDF is a document
	S3Tags      bool `json:"s3_tags,omitempty"`     // tags of objects are metadata of their documents

	Labels Labels `json:"labels,omitzero"` // who may read which document

	Vision Vision       `json:"vision,omitzero"` // which pages a model reads from their picture
	Parser ParserServer `json:"parser,omitzero"` // who parses some types in place of this program
}

// ParserServer is a server that parses documents.
type ParserServer struct {
	Provider  string   `json:"provider,omitempty"` // empty: none; docling
	BaseURL   string   `json:"base_url,omitempty"`
	APIKeyEnv string   `json:"api_key_env,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
	Version   string   `json:"version,omitempty"` // a word of the operator's: another one has all parsed again
	Timeout   Duration `json:"timeout,omitempty"` // of one document
}

// IsOn reports whether there is one.
func (p ParserServer) IsOn() bool { return p.Provider != "" }

// Domain is whose answers the server's are (docs/reference/formats.md, Identity); empty: there is none.
func (p ParserServer) Domain() string { return normalizeURL(p.BaseURL) }

// CoveredDocuments returns what of reading documents decides about their text: not where a server is.
func (s Spec) CoveredDocuments() *Documents {
	if s.Documents == nil || !s.Documents.Parser.IsOn() {
		return s.Documents
	}
	out := *s.Documents
	out.Parser.BaseURL, out.Parser.APIKeyEnv, out.Parser.Timeout = "", "", 0
	return &out
}

// Vision says which pages of PDFs are transcribed from their picture, by the model of RoleVision.
type Vision struct {
	Pages string `json:"pages,omitempty"` // empty: none; scanned: those without text; all
}

// Pages that are transcribed.
const (
	PagesScanned = "scanned"
	PagesAll     = "all"
)

// MetaTranscribed is the metadata of a document, or passage, that lists its transcribed pages: "2, 5-7".
const MetaTranscribed = "transcribed"

// VisionBy returns the provider and model that transcribe pages; nil: none does.
func (s Spec) VisionBy() *[2]string {
	if s.ReadAs().Vision.Pages == "" {
		return nil
	}
	chat := s.ChatOf(RoleVision)
	return &[2]string{chat.Provider, chat.Model}
}

// ReadAs returns how documents are read: as their bytes say where the index does not say it.
func (s Spec) ReadAs() Documents {
	if s.Documents == nil {
		return Documents{}
	}
	return *s.Documents
}

// Chunking says how documents are cut. Tokens are o200k tokens.
type Chunking struct {
	Strategy   string `json:"strategy"`   // text | fixed | document
	Boundaries string `json:"boundaries"` // stable | packed
	MaxTokens  int    `json:"max_tokens"`
	Overlap    int    `json:"overlap"`
}

// Shortening says when and from what a class text is made.
type Shortening struct {
	Threshold int `json:"threshold"` // runes
	Sample    int `json:"sample"`    // mentions
}

// Retrieval holds the defaults of queries; none of them rebuilds anything except the language of the analyser.
type Retrieval struct {
	Method        string  `json:"method"`
	Rule          string  `json:"rule"`
	TopChunks     int     `json:"top_chunks"`
	Language      string  `json:"language"`
	MinSimilarity float64 `json:"min_similarity"`
}

// mostChunks is how many chunks a query gets at most.
const mostChunks = 100

// mostPrice is the highest price of a model.
const mostPrice = 1e6

// CheckQueries returns which setting no query could go by, in a specification that no configuration of this program was
// read for; empty: none.
func (s Spec) CheckQueries() string {
	prices := []float64{s.Rerank.Price.Prompt, s.Rerank.Price.Call, s.Embedding.Price.Prompt, s.Embedding.Price.Completion,
		s.Chat.Price.Prompt, s.Chat.Price.Completion}
	for _, chat := range s.Roles {
		prices = append(prices, chat.Price.Prompt, chat.Price.Completion)
	}
	for _, price := range prices {
		if price < 0 || price > mostPrice {
			return fmt.Sprintf("the price of a model is %g: it must be from 0 to %g", price, mostPrice)
		}
	}
	if top := s.Retrieval.TopChunks; top < 0 || top > mostChunks {
		return fmt.Sprintf("retrieval.top_chunks is %d: it must be from 1 to %d", top, mostChunks)
	}
	if top := s.Rerank.Top; top < 0 || top > mostChunks {
		return fmt.Sprintf("models.rerank.top is %d: it must be from 2 to %d", top, mostChunks)
	}
	return ""
}

// LanguageAuto leaves the language to the first build, which finds that of most chunks; later ones keep it. It is in
// configurations, and in no specification that a generation was built with.
const LanguageAuto = "auto"

// Answering says how queries are answered; none of it rebuilds anything.
type Answering struct {
	Style string `json:"style,omitempty"` // empty: StyleShort
}

// Styles of answers.
const (
	StyleShort = "short" // one sentence where that is possible
	StyleFull  = "full"  // all that the passages say of it
)

// Budget bounds what one run may pay; zero means no bound.
type Budget struct {
	Calls  int64   `json:"calls"`
	Tokens int64   `json:"tokens"`
	Money  float64 `json:"money"`
}

// ExceededBy names the bounds that a run may exceed, by what is expected of it; empty: none.
func (b Budget) ExceededBy(expected Estimate, currency string) string {
	var over []string
	for _, bound := range []struct {
		high, limit float64
		text        string
	}{
		{expected.SumCalls().High, float64(b.Calls), "calls"},
		{expected.Tokens.High, float64(b.Tokens), "tokens"},
		{expected.Cost.High, b.Money, cmp.Or(currency, "money")},
	} {
		if bound.limit > 0 && bound.high > bound.limit {
			over = append(over, fmt.Sprintf("%.10g %s", bound.limit, bound.text))
		}
	}
	return strings.Join(over, ", ")
}

// NameFlags returns the flags of the command line that give a larger one of what is bounded.
func (b Budget) NameFlags() string {
	out := ""
	if b.Calls > 0 {
		out += " --budget-calls N"
	}
	if b.Tokens > 0 {
		out += " --budget-tokens N"
	}
	if b.Money > 0 {
		out += " --budget-money N"
	}
	return out
}

// Failures is the failure budget: a run does not publish when more chunks failed than Count and than Share of all
// chunks, or more documents than Count and than DocumentsShare of all documents; fewer than Floor failures never hold
// a run.
type Failures struct {
	Share          float64 `json:"share"`           // of chunks
	Count          int     `json:"count"`           // of either
	DocumentsShare float64 `json:"documents_share"` // 0: Share
	Floor          int     `json:"floor"`           // fewer failures of a kind hold nothing; 0: 5
}

// Gate holds the checks before publication.
type Gate struct {
	MaxRemoved    float64 `json:"max_removed"`
	Probes        string  `json:"probes"` // a file as Spec.Aliases
	MaxRecallDrop float64 `json:"max_recall_drop"`
	MaxSizeChange float64 `json:"max_size_change,omitempty"` // share of the parent's chunks; 0: not looked at
	MaxCost       float64 `json:"max_cost,omitempty"`        // of a run that has a parent; 0: not looked at
}

// Price is money per million tokens.
type Price struct {
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
}

// Roles of chat models. What has none, such as a decision about two names, is asked of models.chat.
const (
	RoleExtraction = "extraction" // entities of chunks, and questions of the enrichment gem
	RoleShortening = "shortening" // texts of classes, and summaries of the enrichment gem
	RoleTriples    = "triples"    // triples of chunks and of questions
	RoleAnswer     = "answer"     // answers of queries
	RoleVision     = "vision"     // text of pages that are pictures; models.chat does not stand in for it
	RoleJudge      = "judge"      // of answers in evaluations; no part of a Spec
)

// ChatOf returns the chat model of a role: its own, else models.chat.
func (s Spec) ChatOf(role string) ChatModel {
	if own, ok := s.Roles[role]; ok {
		return own
	}
	return s.Chat
}

// LimitsOf returns the limits that calls of a role have: each that the model sets for itself, else that of the index.
func (s Spec) LimitsOf(role string) Limits {
	own := s.ChatOf(role).Limits
	return Limits{
		Concurrency:       cmp.Or(own.Concurrency, s.Limits.Concurrency),
		RequestsPerMinute: cmp.Or(own.RequestsPerMinute, s.Limits.RequestsPerMinute),
		TokensPerMinute:   cmp.Or(own.TokensPerMinute, s.Limits.TokensPerMinute),
	}
}

// BuildChats returns the provider and model of the two roles that decide what a generation says: a change of either
// makes it again.
func (s Spec) BuildChats() (extraction, shortening [2]string) {
	name := func(m ChatModel) [2]string { return [2]string{m.Provider, m.Model} }
	return name(s.ChatOf(RoleExtraction)), name(s.ChatOf(RoleShortening))
}

// BuildsLike reports whether both specifications extract and shorten with the same models.
func (s Spec) BuildsLike(other Spec) bool {
	extraction, shortening := s.BuildChats()
	extracted, shortened := other.BuildChats()
	return extraction == extracted && shortening == shortened
}

// BuildsBy reports whether a provider extracts or shortens.
func (s Spec) BuildsBy(provider string) bool {
	extraction, shortening := s.BuildChats()
	return extraction[0] == provider || shortening[0] == provider
}

// ChatModel is a model for one role, or for all.
type ChatModel struct {
	Provider  string `json:"provider"` // builtin | openai | recorded
	BaseURL   string `json:"base_url,omitempty"`
	APIKeyEnv string `json:"api_key_env,omitempty"`
	Model     string `json:"model"`
	Mode      string `json:"mode,omitempty"`
	File      string `json:"file,omitempty"` // provider recorded: the file that is replayed
	Price     Price  `json:"price"`

	MaxTokens   int      `json:"max_tokens,omitempty"`   // of an answer; 0: by the request
	TrustDomain string   `json:"trust_domain,omitempty"` // see Domain
	Timeout     Duration `json:"timeout,omitempty"`      // of one request; 0: DefaultModelTimeout

	Batch BatchMode `json:"batch,omitzero"` // of mode batch; zero: every call is a separate request

	Limits Limits `json:"limits,omitzero"` // of this model's calls, in place of the general ones; zero: none
}

// BatchMode says how extraction is answered by a server's Batch API: files of requests, answered within a day for less
// money.
type BatchMode struct {
	Deadline Duration `json:"deadline"`         // from the build's beginning; the rest goes online
	Poll     Duration `json:"poll"`             // between looks at what is at work
	Tokens   int64    `json:"tokens"`           // of prompts that may wait at the server at once; 0: any number
	Requests int      `json:"requests"`         // of a file, at most
	Hourly   int      `json:"hourly"`           // batches that are created in an hour, at most
	PricedAt float64  `json:"priced_at"`        // share of the price of online calls
	Folder   string   `json:"folder,omitempty"` // where another program answers; empty: the server's Batch API
}

// IsOn reports whether batches are asked for.
func (m BatchMode) IsOn() bool { return m.Deadline > 0 }

// EmbedModel says who embeds classes, chunks and questions.
type EmbedModel struct {
	Provider       string `json:"provider"` // builtin | openai
	BaseURL        string `json:"base_url,omitempty"`
	APIKeyEnv      string `json:"api_key_env,omitempty"`
	Model          string `json:"model"`
	Dimension      int    `json:"dimension"`
	MaxInputTokens int    `json:"max_input_tokens"`
	Classes        string `json:"classes"` // model | lexical
	Price          Price  `json:"price"`
	TrustDomain    string `json:"trust_domain,omitempty"` // see Domain

	Timeout Duration `json:"timeout,omitempty"` // of one request; 0: DefaultModelTimeout
}

// IsInside says whether the embedder is a model inside the program (package neural), rather than its lexical vectors or
// a server.
func (m EmbedModel) IsInside() bool { return m.Provider == "builtin" && m.Model != "" }

// ByModel reports whether a model embeds chunks, and classes too; the lexical vectors do what it does not.
func (m EmbedModel) ByModel() (chunks, classes bool) {
	chunks = m.Provider != "builtin" || m.IsInside()
	return chunks, chunks && m.Classes != "lexical"
}

// RerankModel says who orders the best chunks of a query again. It changes nothing that is built.
type RerankModel struct {
	Provider  string `json:"provider"` // empty: none; http
	BaseURL   string `json:"base_url,omitempty"`
	APIKeyEnv string `json:"api_key_env,omitempty"`
	Model     string `json:"model,omitempty"`
	Top       int    `json:"top,omitempty"` // chunks that are sent at most

	MaxInputTokens int         `json:"max_input_tokens,omitempty"` // of a chunk, the rest is not sent; 0: all are
	Timeout        Duration    `json:"timeout,omitempty"`          // of all that reranking takes
	Price          RerankPrice `json:"price,omitzero"`
}

// IsOn reports whether there is a reranker.
func (r RerankModel) IsOn() bool { return r.Provider != "" }

// RerankPrice is money per million tokens, and for each request: servers charge one or the other.
type RerankPrice struct {
	Prompt float64 `json:"prompt"`
	Call   float64 `json:"call"`
}

// DefaultKeyVariable holds the key of a model server where a configuration names no other variable. A server of one's
// own is asked without a key where it is empty.
const DefaultKeyVariable = "OPENAI_API_KEY"

// DefaultModelTimeout is how long one request to a model may take from sending to the last byte of its answer. A spec
// holds 0 for it, as those of releases without the setting do.
const DefaultModelTimeout = Duration(5 * time.Minute)

// Limits are shared by all workers, per endpoint; zero means none.
type Limits struct {
	Concurrency       int `json:"concurrency"`
	RequestsPerMinute int `json:"requests_per_minute"`
	TokensPerMinute   int `json:"tokens_per_minute"`
}

// ConfigDigest covers what a generation is computed from and nothing else (docs/reference/formats.md, Identity),
// so that a change of prices, limits, retrieval defaults or gates rebuilds nothing. Trust domains are not in it: a
// build compares them with those of the generation before.
func (s Spec) ConfigDigest() Digest {
	extraction, shortening := s.BuildChats()
	var shortened *[2]string
	if shortening != extraction {
		shortened = &shortening
	}
	covered := struct {
		Corpus     string
		Chunking   Chunking
		Shortening Shortening
		Parity     bool
		Language   string
		Chat       [2]string
		Embedding  [2]string
		Dimension  int
		MaxInput   int
		Classes    string
		Extraction *Extraction `json:",omitempty"` // not in the digests of those that send all chunks
		Documents  *Documents  `json:",omitempty"`
		Shortened  *[2]string  `json:",omitempty"` // only of a model that does not extract, too
		Vision     *[2]string  `json:",omitempty"`
	}{
		s.Corpus, s.Chunking, s.Shortening, s.Parity, s.Retrieval.Language,
		extraction,
		[2]string{
			s.Embedding.Provider,
			s.Embedding.Model,
		},
		s.Embedding.Dimension, s.Embedding.MaxInputTokens, s.Embedding.Classes, s.Extraction.covered(), s.CoveredDocuments(),
		shortened,
		s.VisionBy(),
	}
	raw, err := json.Marshal(covered)
	if err != nil {
		panic("corpus: config digest: " + err.Error()) // plain structs of strings and numbers always marshal
	}
	return Sum("config/1", string(raw))
}

// Duration is a time.Duration that reads and writes "24h" in JSON.
type Duration time.Duration

// MarshalText writes Go's duration form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go's duration form.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 24h", b)
	}
	*d = Duration(v)
	return nil
}
