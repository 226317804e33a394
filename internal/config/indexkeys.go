package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/entitytype"
)

// omitHidden leaves out what documents hide.
const omitHidden = "omit"

// noPages has no page transcribed.
const noPages = "none"

// indexKeys are the keys of what an index is made of and how it is searched. Its own models are described with the
// general ones.
var indexKeys = []key{
	{
		path: "indexes.*.corpus",
		meaning: "the corpus, unless the command line gives one; a published index changes its corpus only with " +
			"--replace-corpus",
		example:  "s3://bucket/docs/",
		rebuilds: paysChunks,
		rule:     allowEmpty(requireLocation("s3")),
	},
	{
		path: "indexes.*.follow_links",
		meaning: "follow symbolic links in a folder corpus, also to targets outside the folder; without it, links are " +
			"reported and skipped",
	},
	{
		path: "indexes.*.include",
		meaning: "patterns of files to index, relative to the corpus: ** is any folders, * a part of a name, {a,b} " +
			"either; empty: all files. Hidden files and node_modules are skipped unless a pattern names them",
		example: `["docs/**", "*.md"]`,
		rule:    requirePatterns(),
	},
	{
		path:    "indexes.*.exclude",
		meaning: "patterns of files to skip, even if include matches; a document that they newly match counts as removed",
		example: `["**/drafts/**"]`,
		rule:    requirePatterns(),
	},
	{
		path: "indexes.*.documents.encoding",
		meaning: "PATTERN=CHARSET for text, HTML, JSON and CSV files whose charset is detected wrongly; the first pattern " +
			"that matches counts",
		example:  `["letters/**=windows-1251", "*.csv=gb18030"]`,
		rebuilds: paysChunks,
		rule:     requireEncodings(),
	},
	{
		path: "indexes.*.documents.types",
		meaning: "PATTERN=TYPE for objects whose extension does not give their type, one of " + kindNames + "; the first " +
			"pattern that matches counts. A file without a known extension is read as text if it contains text",
		example:  `["**/*.xml=html", "export/*.dat=csv"]`,
		rebuilds: paysChunks,
		rule:     requireTypes(),
	},
	{
		path: "indexes.*.documents.hidden",
		meaning: "hidden text, rows, columns, sheets, shapes and slides of Office documents: omit skips them and counts " +
			"them in a problem (parts_missing), include indexes them",
		example:  "include",
		rebuilds: paysChunks,
		rule:     oneOf(omitHidden, "include"),
	},
	{
		path: "indexes.*.documents.attachments",
		meaning: "index files attached to mail and PDF as separate documents (mail.eml#plan.pdf, attached_to in the " +
			"metadata), the first 100 of an object; otherwise the text only lists their names",
		rebuilds: paysChunks,
	},
	{
		path: "indexes.*.documents.s3_tags",
		meaning: "tags of S3 objects are metadata of their documents, at one request for each object that is read " +
			"(docs/guides/filters.md); without effect on a folder",
		rebuilds: paysChunks,
	},
	{
		path: "indexes.*.documents.labels.field",
		meaning: "field of metadata that lists the labels of a document, each a group of readers: who holds one of them " +
			"may read it; public is everybody, a document without labels is read by nobody (docs/guides/labels.md)",
		example:  "labels",
		rebuilds: paysLabels,
		rule:     allowEmpty(requireField()),
	},
	{
		path: "indexes.*.documents.labels.rules",
		meaning: "PATTERN=LABELS for documents without the field, labels with commas between them; the first pattern that " +
			"matches the object counts",
		example:  `["hr/**=hr,board", "handbook/**=public"]`,
		rebuilds: paysLabels,
		rule:     requireLabels(),
	},
	{
		path: "indexes.*.documents.vision.pages",
		meaning: "pages of PDFs that models.vision transcribes from their picture, once each: scanned, those without text; " +
			"all, in place of the text that they have; none (docs/guides/scans.md)",
		example:  core.PagesScanned,
		rebuilds: paysChunks,
		rule:     oneOf(noPages, core.PagesScanned, core.PagesAll),
	},
	{
		path: "indexes.*.documents.parser.provider",
		meaning: "who parses documents of parser.kinds: builtin, or docling, a docling-serve; where that fails, the " +
			"built-in parser, with a problem (parts_missing); of PDFs, models.vision transcribes only those left to that",
		example:  providerDocling,
		rebuilds: paysChunks,
		rule:     oneOf(providerBuiltin, providerDocling),
	},
	{
		path:    "indexes.*.documents.parser.base_url",
		meaning: "address of the docling-serve; another one parses all again, as after a change of version",
		example: "http://docling:5001",
		rule:    allowEmpty(requireURL()),
	},
	{
		path:    "indexes.*.documents.parser.api_key_env",
		meaning: "variable that holds its key (X-Api-Key); empty: none is sent",
		example: "DOCLING_KEY",
		rule:    allowEmpty(requireVariable()),
	},
	{
		path:     "indexes.*.documents.parser.kinds",
		meaning:  "types that it parses",
		example:  "[pdf, docx]",
		rebuilds: paysChunks,
		rule: eachOf(string(document.PDF), string(document.DOCX), string(document.PPTX), string(document.XLSX),
			string(document.HTML)),
	},
	{
		path:     "indexes.*.documents.parser.version",
		meaning:  "any word; another one has documents parsed again, as after an upgrade of the server",
		example:  "v2",
		rebuilds: paysChunks,
	},
	{
		path:    "indexes.*.documents.parser.timeout",
		meaning: "longest time for one document",
		example: "10m",
		rule:    requireDuration(time.Millisecond, 10*time.Minute),
	},
	{
		path:    "indexes.*.enrich",
		meaning: "enrichments that a build adds to classes and chunks: " + strings.Join(Enrichments, ", "),
		example: "[" + Enrichments[0] + "]",
		rule:    eachOf(Enrichments...),
	},
	{
		path: "indexes.*.pairs.ask",
		meaning: "number of candidate pairs of names that enrichment aliases sends to the chat model, the likeliest first; " +
			"each is paid for once, and again if the texts of the two change. 0: pairs are found, and no model " +
			"is asked",
		unit:    "pairs",
		example: "100",
		rule:    requireRange(0, 10_000),
	},
	{
		path: "indexes.*.pairs.classes",
		meaning: "number of classes that enrichment aliases compares with each other, the most mentioned first: their " +
			"vectors are in memory at once, and the time of a first build grows quadratically",
		unit:    "classes",
		example: "5000",
		rule:    requireRange(2, 100_000),
	},
	{
		path: "indexes.*.pairs.cosine",
		meaning: "minimum cosine of two class vectors for enrichment aliases to consider them a pair, unless they have " +
			"the same spelling",
		unit:    "cosine",
		example: "0.97",
		rule:    requireRange(0.5, 1),
	},
	{
		path: "indexes.*.gem.questions",
		meaning: "number of questions that enrichment gem generates for each chunk; 0: none, chunks are compared by their " +
			"texts at no cost. A change generates the questions of every chunk again, and rebuilds nothing else",
		unit:    "questions",
		example: "3",
		rule:    requireRange(0, 20),
	},
	{
		path: "indexes.*.gem.themes",
		meaning: "the most themes that enrichment gem takes from the spectrum, the overview among them; how many there are " +
			"goes by the first gap of the eigenvalues. A change makes graph, spectrum and summaries again; no chunk is asked",
		unit:    "themes",
		example: "6",
		rule:    requireRange(1, 50),
	},
	{
		path: "indexes.*.gem.neighbours",
		meaning: "how many nearest chunks each chunk has in the graph that a search along edges goes by; of more than " +
			"2,000 chunks the spectrum is of this graph, too. A change makes graph, spectrum and summaries again; no chunk " +
			"is asked",
		unit:    "chunks",
		example: "30",
		rule:    requireRange(1, 200),
	},
	{
		path: "indexes.*.chunking.strategy",
		meaning: "text: paragraphs and sentences, packed; fixed: windows of max_tokens; document: one chunk per " +
			"document",
		example:  "fixed",
		rebuilds: paysChunks,
		rule:     oneOf(strategies...),
	},
	{
		path:     "indexes.*.chunking.boundaries",
		meaning:  "stable: an edit moves few boundaries; packed: chunks are as long as possible",
		example:  "packed",
		rebuilds: paysChunks,
		rule:     oneOf("stable", "packed"),
	},
	{
		path:     "indexes.*.chunking.max_tokens",
		meaning:  "longest chunk",
		unit:     "o200k tokens",
		example:  "900",
		rebuilds: paysChunks,
		rule:     requireRange(50, 8000),
	},
	{
		path:     "indexes.*.chunking.overlap",
		meaning:  "overlap of neighbouring chunks, less than max_tokens; only for strategy fixed",
		unit:     "o200k tokens",
		example:  "128",
		rebuilds: paysChunks,
		rule:     requireRange(0, 7999),
	},
	{
		path: "indexes.*.extraction.share",
		meaning: "of the chunks, about, the share that the chat model extracts from, rather those with many names for " +
			"their length; built-in rules extract from the " +
			"others. An estimate says how many are sent. Half of it or twice as " +
			"many can be, by how rich in names a corpus is; a larger share sends all that a smaller one sent",
		unit:     "share of chunks",
		example:  "0.3",
		rebuilds: paysShare,
		rule:     requireRange(0, 1),
	},
	{
		path:     "indexes.*.extraction.language",
		meaning:  "language of the chat model's descriptions; auto: the language of each passage. No effect under parity",
		example:  "de",
		rebuilds: paysWriting,
		rule: newTextRule("auto or a code such as de", func(code string) string {
			if code == core.LanguageAuto || text.NameOf(code) != "" {
				return ""
			}
			return fmt.Sprintf("%q is no language: use auto or a code such as de, fr or ko", code)
		}),
	},
	{
		path: "indexes.*.extraction.types",
		meaning: "types that the chat model gives entities, for lists of all entities of a type " +
			"(docs/guides/own-types.md); an entity of none of them is kept without a type. Rules give no types. No effect " +
			"under parity, as guidance and examples have none",
		example:  "[Person, Drug]",
		rebuilds: paysRequest,
		rule:     requireEntityTypes(),
	},
	{
		path:     "indexes.*.extraction.guidance",
		meaning:  "what the prompt of extraction says about the corpus in addition; it is paid for with every passage",
		example:  "Doses and side effects matter",
		rebuilds: paysRequest,
		rule:     newTextRule("at most 4,000 characters", entitytype.CheckGuidance),
	},
	{
		path: "indexes.*.extraction.examples",
		meaning: "JSON file of at most 8 KiB with example answers, paid for with every passage: a list of " +
			`{"text", "entities": [{"name", "type", "description"}]}`,
		example:  "examples.json",
		rebuilds: paysRequest,
		rule:     newTextRule("path of a file", func(string) string { return "" }), // read where an index is resolved
	},
	{
		path: "indexes.*.extraction.apply",
		meaning: "passages that changed types, guidance or examples are applied to: all; new, those that the published " +
			"generation does not have; mentions, those and passages that name what has another type now " +
			"(docs/guides/own-types.md). Empty: all, once, and nights leave it at that; `--extraction-to` wins",
		example: core.ApplyNew,
		rule:    allowEmpty(oneOf(core.ApplyAll, core.ApplyNew, core.ApplyMentions)),
	},
	{
		path: "indexes.*.answer.style",
		meaning: "short: the chat model answers in one sentence if possible; full: in as many as the answer takes. A query " +
			"may set `answer_style` instead",
		example: "full",
		rule:    oneOf(core.StyleShort, core.StyleFull),
	},
	{
		path:     "indexes.*.shortening.threshold",
		meaning:  "the chat model shortens class texts longer than this",
		unit:     "runes",
		example:  "2000",
		rebuilds: paysClasses,
		rule:     requireRange(200, million),
	},
	{
		path:     "indexes.*.shortening.sample",
		meaning:  "maximum number of mentions in a class text",
		unit:     "mentions",
		example:  "64",
		rebuilds: paysClasses,
		rule:     requireRange(1, 100000),
	},
	{
		path: "indexes.*.priority.level",
		meaning: "runs of an index of a lower number go before those of a higher one wherever tasks wait for a worker, " +
			"until they have nothing to do. Taken at the start of a run; Temporal servers without matching.useNewMatcher " +
			"ignore it",
		example: "2",
		rule:    requireRange(1, 5),
	},
	{
		path: "indexes.*.priority.weight",
		meaning: "part of the workers that runs of an index get while others of its level have work, too. A Temporal " +
			"server of your own needs matching.enableFairness in its dynamic configuration, which the embedded one and " +
			"that of the compose file have; without it the first that came is served first",
		unit:    "parts",
		example: "4",
		rule:    requireRange(0.001, 1000),
	},
	{
		path: "indexes.*.retrieval.method",
		meaning: "retrieval method of queries that name none; like every key of retrieval it applies from the next " +
			"published generation",
		example: "unweaver",
		rule:    oneOf(Methods...),
	},
	{
		path:    "indexes.*.retrieval.rule",
		meaning: "election rule of method unweaver",
		example: "seqpav",
		rule:    oneOf(Rules...),
	},
	{
		path:    "indexes.*.retrieval.top_chunks",
		meaning: "number of chunks in a result",
		unit:    "chunks",
		example: "10",
		rule:    requireRange(1, 100),
	},
	{
		path: "indexes.*.retrieval.language",
		meaning: "language of the texts, whose rules cut them into words and find names: English, German (de), Spanish, " +
			"French, Portuguese, Japanese, Thai, Chinese; und for any other, by plain words; auto: that of most chunks of the " +
			"first build, which the index keeps",
		example:  "de",
		rebuilds: paysLanguage,
		rule:     requireLanguage(),
	},
	{
		path: "indexes.*.retrieval.min_similarity",
		meaning: "a question none of whose words is indexed finds nothing below it; with the built-in embedder below 0.25 " +
			"at least",
		unit:    "cosine",
		example: "0.3",
		rule:    requireRange(-1, 1),
	},
	{
		path:     "indexes.*.parity",
		meaning:  "as the reference implementation, to compare with the paper (formats.md, Parity)",
		rebuilds: paysParity,
	},
}
