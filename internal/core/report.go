package core

import (
	"path"
	"strconv"
	"strings"
	"time"
)

func formatInt(n int) string { return strconv.Itoa(n) }

// Calls counts requests to models by task; an embed call is one request.
type Calls struct {
	Extract int64 `json:"extract"`
	Shorten int64 `json:"shorten"`
	Embed   int64 `json:"embed"`

	Transcribe int64 `json:"transcribe,omitempty"` // of pages
}

// Tokens counts what models reported (or, where they did not, what we counted).
type Tokens struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Embedding  int64 `json:"embedding"`
}

// Stage statuses of a run.
const (
	StatusRunning   = "running"
	StatusPaused    = "paused"
	StatusWaiting   = "waiting" // for an outage to end: it goes on by itself
	StatusCompleted = "completed"
	StatusErrors    = "completed_with_errors"
	StatusHeld      = "held"
	StatusFailed    = "failed"
	StatusCancelled = "cancelled"
)

// IsTerminal reports whether a status is final.
func IsTerminal(status string) bool {
	switch status {
	case StatusCompleted, StatusErrors, StatusHeld, StatusFailed, StatusCancelled:
		return true
	}
	return false
}

// Spent is what requests come to. A report's unsettled ones were sent, and their answers are not counted: while a run
// goes on those in flight, afterwards those of processes that died, which may have been paid for. Their tokens
// and cost are estimates: answers are reckoned by the mean of those that were counted when the request was sent.
type Spent struct {
	Calls  Calls   `json:"calls"`
	Tokens Tokens  `json:"tokens"`
	Cost   float64 `json:"cost"`
}

// StageProgress is one stage of a run.
type StageProgress struct {
	Name    string  `json:"name"`
	Done    int64   `json:"done"`
	Total   int64   `json:"total"`
	Seconds float64 `json:"seconds"`
}

// Problem is something that a person should look at: a code and the object it happened on.
type Problem struct {
	Code   string `json:"code"`
	Object string `json:"object"`
	Detail string `json:"detail,omitempty"`
}

// Report is report.json and what index --wait --json and status --json print (docs/reference/formats.md, Artifacts).
type Report struct {
	Index       string  `json:"index"`
	Generation  string  `json:"generation"`
	Run         string  `json:"run"`
	RunID       string  `json:"run_id,omitempty"` // of its workflow: a name may have been used before
	Status      string  `json:"status"`
	Reason      string  `json:"reason,omitempty"` // of held, paused, failed
	Detail      string  `json:"detail,omitempty"`
	Unchanged   bool    `json:"unchanged,omitempty"`
	Published   bool    `json:"published"`
	ContentHash string  `json:"content_hash"`
	TextHash    string  `json:"text_hash"`
	VectorHash  string  `json:"vector_hash"`
	Documents   int64   `json:"documents"`
	Within      int64   `json:"documents_within,omitempty"` // of these, rows and attachments of files
	Chunks      int64   `json:"chunks"`
	Classes     int64   `json:"classes"`
	Mentions    int64   `json:"mentions"`
	DeadLetters int64   `json:"dead_letters"`
	Refused     int64   `json:"refused"`
	LeftOut     LeftOut `json:"left_out,omitzero"`
	Calls       Calls   `json:"calls"`
	LedgerHits  Calls   `json:"ledger_hits"`
	Tokens      Tokens  `json:"tokens"`
	Cost        float64 `json:"cost"`
	Unsettled   Spent   `json:"unsettled"` // not in the above

	EntitiesCut  int64           `json:"entities_cut,omitempty"`  // dropped or shortened: above what is taken
	UsageDoubted int64           `json:"usage_doubted,omitempty"` // calls whose tokens we counted ourselves
	LedgerDamage int64           `json:"ledger_damage,omitempty"` // objects of the ledger that could not be read
	Seconds      float64         `json:"seconds"`
	Stages       []StageProgress `json:"stages"`
	Rate         float64         `json:"rate"`
	ETASeconds   float64         `json:"eta_seconds"`
	Models       ModelSummary    `json:"models"`
	Diff         Diff            `json:"diff"`
	Reasons      []string        `json:"reasons,omitempty"` // why documents that did not change were built again
	Written      Written         `json:"written"`
	Problems     []Problem       `json:"problems,omitempty"` // the first 100
	Started      time.Time       `json:"started"`
	Ended        *time.Time      `json:"ended,omitempty"`
	IdleSeconds  float64         `json:"idle_seconds,omitempty"` // of Seconds, those in which it paused or waited
	Currency     string          `json:"currency,omitempty"`     // of Cost; empty: that of the configured prices
	Version      string          `json:"version,omitempty"`      // of the program that ended it
	Events       []Event         `json:"events,omitempty"`       // what happened to it, oldest first
	Retries      []Retry         `json:"retries,omitempty"`      // what its units failed with and were repeated for
	Course       []Moment        `json:"course,omitempty"`       // how far it was over time, at most 240 moments
	Bytes        int64           `json:"bytes,omitempty"`        // of the files of the generation that it wrote
	Enriched     []Enrichment    `json:"enriched,omitempty"`     // what the generation has beside what every one has

	// What failed and still stands, of this run or of a generation before.
	ProblemsTotal   int64  `json:"problems_total"`
	ProblemsPath    string `json:"problems_path"` // artifact with all of them
	DocumentsFailed int64  `json:"documents_failed"`
	DocumentsEmpty  int64  `json:"documents_empty,omitempty"` // without text: problems, and no failures
	Stale           int64  `json:"stale"`                     // of these, documents whose former content is served
	ChunksFailed    int64  `json:"chunks_failed"`

	Estimate *Estimate `json:"estimate,omitempty"` // of a dry run
	Shares   []Share   `json:"shares,omitempty"`   // of a dry run: what would be made, by the reason for it
	Why      *Why      `json:"why,omitempty"`      // of a dry run that was asked about one document
	Planned  *Estimate `json:"planned,omitempty"`  // of a run: what was expected of it, by a plan or by itself
	Audit    *Audit    `json:"audit,omitempty"`    // of an audit
	Probes   *Probed   `json:"probes,omitempty"`   // where gate.probes is set
	Watched  *Watched  `json:"watched,omitempty"`  // where the index has standing questions
}

// LeftOut counts objects of the corpus that were not looked at.
type LeftOut struct {
	Hidden      int64 `json:"hidden,omitempty"`       // a part of the path starts with a dot
	Packages    int64 `json:"packages,omitempty"`     // in node_modules and folders like it
	NotIncluded int64 `json:"not_included,omitempty"` // no pattern of include matches
	Excluded    int64 `json:"excluded,omitempty"`     // a pattern of exclude does
	Backfills   int64 `json:"backfills,omitempty"`    // documents that backfills bring, which go on
	Purged      int64 `json:"purged,omitempty"`       // documents that were purged, which the corpus still has
	OtherTypes  int64 `json:"other_types,omitempty"`  // of a type that is not read

	// Extensions counts those of OtherTypes by their extension, at most maxExtensions of them.
	Extensions map[string]int64 `json:"extensions,omitempty"`
}

// AttachmentsOff is a reason of a build: what was attached to mail and PDFs is no document any more.
const AttachmentsOff = "config: documents.attachments was switched off"

// LabelsOff is a reason of a build: who may read the index may read all its documents.
const LabelsOff = "config: documents.labels was switched off"

// maxExtensions of objects that are left out are counted apart.
const maxExtensions = 50

// AddOtherType counts an object of a type that is not read.
func (o *LeftOut) AddOtherType(object string) {
	o.OtherTypes++
	o.addExtension(strings.ToLower(path.Ext(object)), 1)
}

// AddOtherTypes adds what another list counted of such objects.
func (o *LeftOut) AddOtherTypes(other LeftOut) {
	o.OtherTypes += other.OtherTypes
	for extension, count := range other.Extensions {
		o.addExtension(extension, count)
	}
}

func (o *LeftOut) addExtension(extension string, count int64) {
	if len(extension) < 2 || len(extension) > 10 {
		extension = "no extension"
	}
	if _, known := o.Extensions[extension]; !known && len(o.Extensions) >= maxExtensions {
		return
	}
	if o.Extensions == nil {
		o.Extensions = map[string]int64{}
	}
	o.Extensions[extension] += count
}

// Range is what a figure lies between, both ends included.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Estimate is what a dry run expects a run to pay for: calls by task (an embed call is one request), tokens of all
// kinds, cost in the money of the configured prices, and wall-clock seconds.
type Estimate struct {
	Extract Range `json:"extract"`
	Rules   int64 `json:"rules,omitempty"` // chunks that are extracted by rule, as the model gets a share of them
	Shorten Range `json:"shorten"`
	Embed   Range `json:"embed"`

	Transcribe Range `json:"transcribe,omitzero"` // pages, one call each

	Tokens  Range `json:"tokens"`
	Cost    Range `json:"cost"`
	Seconds Range `json:"seconds"`
	Runs    int   `json:"runs,omitempty"` // earlier ones that it goes by

	ApplyTo *ApplyCalls `json:"apply_to,omitempty" doc:"extractions by --extraction-to, where that makes a difference"`
}

// ApplyCalls are extractions to pay for by the passages that another request is applied to.
type ApplyCalls struct {
	All      int64 `json:"all" doc:"extractions of every passage"`
	New      int64 `json:"new" doc:"extractions of passages that the published generation does not have"`
	Mentions int64 `json:"mentions" doc:"extractions of those, and of passages that name what has another type now"`
}

// SumCalls returns the calls of all tasks.
func (e Estimate) SumCalls() Range {
	return e.Extract.Plus(e.Shorten).Plus(e.Embed).Plus(e.Transcribe)
}

// Diff counts documents against the parent generation.
type Diff struct {
	Added     int64 `json:"added"`
	Changed   int64 `json:"changed"`
	Removed   int64 `json:"removed"`
	Same      int64 `json:"same"`
	Moved     int64 `json:"moved"` // under a new key, with content that left under another
	Unusable  int64 `json:"unusable"`
	Unchanged bool  `json:"-"`
}

// Written counts what a run wrote to the stores; all zero for an unchanged corpus.
type Written struct {
	Segments int64 `json:"segments"`
	Records  int64 `json:"records"`
	Rows     int64 `json:"rows"`
}

// Progress is what one batch reports: absolute numbers of one attempt, so that writing it twice changes nothing.
type Progress struct {
	Stage   string  `json:"s"`
	Done    int64   `json:"d"`
	Calls   Calls   `json:"c"`
	Hits    Calls   `json:"h"`
	Tokens  Tokens  `json:"t"`
	Cost    float64 `json:"m,omitempty"`
	Written Written `json:"w"`
	Cut     int64   `json:"x,omitempty"` // entities that were dropped or cut
	Bytes   int64   `json:"b,omitempty"` // of the work done, in stages that count them
}

// RunState is what BuildIndex writes at stage boundaries, so that status and query-api need no workflow query.
type RunState struct {
	Report   Report    `json:"report"`
	Stage    string    `json:"stage"`
	Total    int64     `json:"total"`           // of the stage
	Bytes    int64     `json:"bytes,omitempty"` // of the stage's work, where its pieces are of very different sizes
	StageAt  time.Time `json:"stage_at"`
	Workflow string    `json:"workflow"`
	RunID    string    `json:"run_id"`
	Spec     Digest    `json:"spec"`
	Corpus   string    `json:"corpus"`
	Waiting  *Waiting  `json:"waiting,omitempty"` // of a run that waits

	Paid      bool       `json:"paid,omitempty"`       // chunks are extracted by a model that is asked over a network
	Inside    bool       `json:"inside,omitempty"`     // texts are embedded by a model inside
	Stopped   *time.Time `json:"stopped,omitempty"`    // since when it pauses or waits
	StageIdle float64    `json:"stage_idle,omitempty"` // seconds in which the running stage paused or waited
	// Expected are the stages of the run that built the generation before, over ExpectedChunks chunks.
	Expected       []StageProgress `json:"expected,omitempty"`
	ExpectedChunks int64           `json:"expected_chunks,omitempty"`
}

// Waiting reports a run that waits for an outage to end.
type Waiting struct {
	Since time.Time `json:"since"` // the first failure that nothing got on after
	Next  time.Time `json:"next"`  // when it is tried again
	Tries int       `json:"tries"` // that failed
}
