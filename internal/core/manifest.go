package core

import (
	"cmp"
	"fmt"
	"time"
)

// Segment refers to an immutable file by content: <index>/segments/<sha256>.
type Segment struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	Part   int    `json:"part"` // shard or partition it came from: the order of a list
}

// Segments are the files of a generation by kind.
type Segments struct {
	Documents []Segment `json:"documents"`
	Text      []Segment `json:"text"`
	Extract   []Segment `json:"extract"`
	Mentions  []Segment `json:"mentions"`
	Classes   []Segment `json:"classes"`
	ClassVecs []Segment `json:"class_vectors"`
	ChunkVecs []Segment `json:"chunk_vectors"`
	IDF       []Segment `json:"idf,omitempty"` // of the built-in embedder

	Splits    []Split    `json:"splits,omitempty"`
	Chunks    []Segment  `json:"chunks,omitempty"` // what splits are made from, beside texts and mentions
	Runs      []Run      `json:"runs,omitempty"`
	Tombs     []Tomb     `json:"tombs,omitempty"`
	DeadStats []DeadStat `json:"dead_stats,omitempty"`

	Enriched []EnrichedFile `json:"enriched,omitempty"`
}

// EnrichedFile is a file of an enrichment of the generation.
type EnrichedFile struct {
	Segment
	Of   string `json:"of"`   // name of the enrichment
	Kind string `json:"kind"` // what the file holds, a word of the enrichment's own
}

// EnrichedLedger is the kind of a file that lists the ledger entries which an enrichment was made from.
const EnrichedLedger = "ledger"

// Enrichment reports what a build made of a generation beside what every one has.
type Enrichment struct {
	Name   string           `json:"name"`
	Rules  string           `json:"rules"` // digest of all that shaped it: settings, models, versions of its rules
	Hash   Digest           `json:"hash"`  // of its content: that of a build from nothing
	Counts map[string]int64 `json:"counts,omitempty"`
	Models string           `json:"models,omitempty"` // as people see them
}

// Enrichment returns the enrichment of a name; nil: the generation has none.
func (m *Manifest) Enrichment(name string) *Enrichment {
	for i := range m.Enriched {
		if m.Enriched[i].Name == name {
			return &m.Enriched[i]
		}
	}
	return nil
}

// FilesOf lists the files of an enrichment of one kind.
func (s Segments) FilesOf(name, kind string) []Segment {
	var out []Segment
	for _, file := range s.Enriched {
		if file.Of == name && file.Kind == kind {
			out = append(out, file.Segment)
		}
	}
	return out
}

// Split is the mapped file of one split: whole documents with their chunks, dead ones among them.
type Split struct {
	Segment
	Documents int64 `json:"documents"`
	Chunks    int64 `json:"chunks"`
	Classes   int64 `json:"classes"` // that its chunks mention
	Text      int   `json:"text"`    // Part of the documents and text segments that its part 0 is, and so on
	Texts     int   `json:"texts"`   // how many these are
	Extract   int   `json:"extract"` // the same of the extract and mentions segments
	Extracts  int   `json:"extracts"`
}

// Run is the mapped file of one class run: classes as one build made them, dead ones among them.
type Run struct {
	Segment
	Classes int `json:"classes"` // Part of the first classes segment that has its rows, in order
	Parts   int `json:"parts"`   // how many these are
}

// Tomb says which documents of a split, or which rows of a class run, are dead: Of is that segment's content.
type Tomb struct {
	Segment
	Of string `json:"of"`
}

// DeadStat counts the terms of what is dead on one side.
type DeadStat struct {
	Segment
	Side string `json:"side"` // ChunkSide or ClassSide
}

// Sides of words.
const (
	ChunkSide = "chunks"
	ClassSide = "classes"
)

// Kind is a list of segments under the name that people know it by.
type Kind struct {
	Name     string
	Segments []Segment
}

// Kinds lists every segment that the manifest names, by kind.
func (s Segments) Kinds() []Kind {
	return []Kind{
		{"documents", s.Documents}, {"text", s.Text}, {"extract", s.Extract}, {"mentions", s.Mentions},
		{"classes", s.Classes}, {"class vectors", s.ClassVecs}, {"chunk vectors", s.ChunkVecs}, {"idf", s.IDF},
		{"chunks", s.Chunks},
		{"split", segmentsOf(s.Splits, func(one Split) Segment { return one.Segment })},
		{"class run", segmentsOf(s.Runs, func(one Run) Segment { return one.Segment })},
		{"tomb", segmentsOf(s.Tombs, func(one Tomb) Segment { return one.Segment })},
		{"dead statistics", segmentsOf(s.DeadStats, func(one DeadStat) Segment { return one.Segment })},
		{"enrichment", segmentsOf(s.Enriched, func(one EnrichedFile) Segment { return one.Segment })},
	}
}

func segmentsOf[File any](files []File, of func(File) Segment) []Segment {
	var out []Segment
	for _, file := range files {
		out = append(out, of(file))
	}
	return out
}

// All lists every segment that the manifest names.
func (s Segments) All() []Segment {
	var out []Segment
	for _, kind := range s.Kinds() {
		out = append(out, kind.Segments...)
	}
	return out
}

// ManifestFormat is raised when a reader of the old format could misread the new one.
const ManifestFormat = 1

// Manifest is a generation: a table of what is live.
type Manifest struct {
	Format      int          `json:"format"`
	Index       string       `json:"index"`
	Family      string       `json:"family,omitempty"` // the base of a branch: whose records it shares
	Generation  string       `json:"generation"`
	Seq         int64        `json:"seq"`
	Parent      string       `json:"parent,omitempty"` // sha256 of the parent's manifest
	Store       string       `json:"store"`
	Config      Digest       `json:"config_digest"`
	Made        Made         `json:"made"`
	Limits      string       `json:"limits,omitempty"` // of documents, as the worker had them; see document.Limits.Key
	Spec        Digest       `json:"spec"`             // the spec artifact it was built with
	Round       int          `json:"round,omitempty"`  // the latest of retry-failed, its own or of one before it
	Created     time.Time    `json:"created"`
	Class       Fingerprint  `json:"class_embedder"`
	Chunk       Fingerprint  `json:"chunk_embedder"`
	Segments    Segments     `json:"segments"`
	Partitions  int          `json:"partitions"`
	Collections Collections  `json:"collections"`
	Counts      Counts       `json:"counts"`
	Hashes      Hashes       `json:"hashes"`
	Tokens      Tokens       `json:"tokens"`
	Cost        float64      `json:"cost"`
	Models      ModelSummary `json:"models"`
	Enriched    []Enrichment `json:"enriched,omitempty"`
	Trust       *Trust       `json:"trust,omitempty"` // nil: no model was asked over a network

	// Extraction is what its passages were extracted by; nil: the product's own words.
	Extraction *Asked `json:"extraction,omitempty"`
	// Aliases are the names that are mapped in it.
	Aliases Aliases `json:"aliases,omitempty"`
	// Labelled says that its documents have labels: it is read as its readers may.
	Labelled bool `json:"labelled,omitempty"`
}

// Made names the rules of the program that made a generation: a change of any of them is a reason to build again.
// Documents and chunks depend on Parser and Chunker, classes on Names and ClassText, postings on Analyser.
type Made struct {
	Parser    string `json:"parser"`
	Chunker   string `json:"chunker"`
	Names     string `json:"names"`
	ClassText string `json:"class_text"` // from descriptions
	Analyser  string `json:"analyser"`   // rules of words

	// Rules found the names of chunks that no model was asked for; empty: none did.
	Rules string `json:"rules,omitempty"`
}

// ListChanges gives a reason for every version that is not the parent's: "chunker chunk/1 → chunk/2".
func (m Made) ListChanges(parent Made) []string {
	var reasons []string
	for _, version := range []struct{ what, was, now string }{
		{"parser", parent.Parser, m.Parser},
		{"chunker", parent.Chunker, m.Chunker},
		{"names", parent.Names, m.Names},
		{"class text", parent.ClassText, m.ClassText},
		{"analyser", parent.Analyser, m.Analyser},
		{"rules of names", parent.Rules, m.Rules},
	} {
		if version.was == version.now {
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%s %s → %s", version.what,
			cmp.Or(version.was, "none"), cmp.Or(version.now, "none")))
	}
	return reasons
}

// ModelSummary names the models as people see them; built-in ones are labelled so wherever results are shown.
type ModelSummary struct {
	Chat      string `json:"chat"` // who extracts, and does what Roles has no model for
	Embedding string `json:"embedding"`

	// Roles names the models of the other roles, where they are not Chat.
	Roles map[string]string `json:"roles,omitempty" doc:"models of other roles that are not chat"`
}

// Collections are the physical vector collections of a generation.
type Collections struct {
	Classes string `json:"classes"`
	Chunks  string `json:"chunks"`
}

// Counts of a generation.
type Counts struct {
	Documents   int64 `json:"documents"`
	Chunks      int64 `json:"chunks"`
	Classes     int64 `json:"classes"`
	Mentions    int64 `json:"mentions"`
	Edges       int64 `json:"edges"`
	Windows     int64 `json:"windows"`
	DeadLetters int64 `json:"dead_letters"`
	Refused     int64 `json:"refused,omitempty"` // chunks among them that the next run asks for again
	Failed      int64 `json:"failed,omitempty"`  // documents that are in the corpus and cannot be used
	Stale       int64 `json:"stale,omitempty"`   // of these, the ones whose former content is served
	Tokens      int64 `json:"tokens"`            // o200k tokens of all chunks

	// Untranscribed are documents that a round of retry-failed asks a model, or a parser, for again.
	Untranscribed int64 `json:"untranscribed,omitempty"`
}

// Hashes are the three content hashes (docs/reference/formats.md, Identity).
type Hashes struct {
	Content SetHash `json:"content_hash"`
	Text    SetHash `json:"text_hash"`
	Vector  SetHash `json:"vector_hash"`
}

// Merge adds a part's hashes.
func (h *Hashes) Merge(o Hashes) {
	h.Content.Merge(o.Content)
	h.Text.Merge(o.Text)
	h.Vector.Merge(o.Vector)
}

// Fingerprint identifies an embedder and how its input is made: provider, model, dimension, template version, window
// rule, hash of the idf table. A question is embedded with its generation's fingerprint.
type Fingerprint struct {
	Provider  string `json:"provider"`
	Model     string `json:"model"`
	Dimension int    `json:"dimension"`
	Template  string `json:"template"`
	Windows   string `json:"windows"`
	IDF       string `json:"idf,omitempty"` // sha256 of the idf artifact, empty where there is none
}

// Digest returns the digest of the fingerprint.
func (f Fingerprint) Digest() Digest {
	return Sum("fingerprint/1", f.Provider, f.Model, formatInt(f.Dimension), f.Template, f.Windows, f.IDF)
}

// Pointer is current.json: the authority on what is served. Epoch rises with every flip.
type Pointer struct {
	Generation string `json:"generation"`
	Manifest   string `json:"manifest"`
	Seq        int64  `json:"seq"`
	Epoch      int64  `json:"epoch"`
}

// StoredIndex returns the index that records and collections of the generation are named after: a branch shares its
// base's.
func (m *Manifest) StoredIndex() string {
	if m.Family != "" {
		return m.Family
	}
	return m.Index
}

// GenerationRef is generations/<gen>/manifest.json.
type GenerationRef struct {
	Manifest string `json:"manifest"` // sha256 under segments/
	Seq      int64  `json:"seq"`
	State    string `json:"state"` // one of those below
}

// States of a generation that is not served. Only held ones and published ones are kept, by their own rules.
const (
	GenerationPublished = "published" // it was served
	GenerationHeld      = "held"      // by a gate: proven, and never served
	GenerationDiscarded = "discarded" // held, and an operator dropped it
)

// Engine is where workflow runs live: run ids mean something only together with it.
type Engine struct {
	Cluster   string `json:"cluster"`   // the server's own id: one server may have several addresses
	Address   string `json:"address"`   // for people
	Namespace string `json:"namespace"` // of the cluster
}

// IsSame reports whether two names mean the same engine.
func (e Engine) IsSame(other Engine) bool {
	return e.Cluster == other.Cluster && e.Namespace == other.Namespace
}

// Lease is lease.json: which run builds the index. An empty workflow is a lease that was given back. The fence rises
// with every holder and never falls.
type Lease struct {
	Engine    Engine        `json:"engine,omitzero"`
	Workflow  string        `json:"workflow"`
	Run       string        `json:"run"`
	Fence     int64         `json:"fence"`
	Heartbeat time.Duration `json:"heartbeat,omitempty"` // of the run, in nanoseconds
	Taken     time.Time     `json:"taken"`
	Renewed   time.Time     `json:"renewed,omitzero"`
}
