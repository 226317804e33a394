// Package fault gives every error that can reach a person the same four parts: what failed (Code and Op), on which
// object, why (the wrapped cause) and what to do about it (Hint). It also says how the failure heals, so that one
// place (activities) maps it to a retry policy and one place (query-api) maps it to an HTTP status.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Code names a kind of failure. Codes are stable: they appear in Temporal history, in problem+json type URIs and in
// reports, where the text of an error must not.
type Code string

// Codes grouped by where they come from.
const (
	// Input of a person: usage and configuration.
	Usage         Code = "usage"
	BadConfig     Code = "bad_config"
	UnknownIndex  Code = "unknown_index"
	UnknownGen    Code = "unknown_generation"
	GenCollected  Code = "generation_collected"
	NotFound      Code = "not_found"
	InvalidParam  Code = "invalid_parameter"
	TooLarge      Code = "too_large"
	DataDirInUse  Code = "data_dir_in_use"
	PortTaken     Code = "port_taken"
	CorpusChanged Code = "corpus_changed"

	// Images of indexes.
	IndexPulled    Code = "index_pulled"    // builds do not change what was pulled
	ImageUntrusted Code = "image_untrusted" // none of its signatures is by the key that was asked for

	// Requests over HTTP.
	Unauthorized Code = "unauthorized" // no key, or none that is valid
	Forbidden    Code = "forbidden"    // a key whose scope does not allow it, or a page of another origin
	Misdirected  Code = "misdirected"  // for a Host that is not this server's
	MediaType    Code = "unsupported_media_type"
	BodyTimeout  Code = "body_timeout"
	Timeout      Code = "timeout" // a request took longer than it may
	NoSuchMethod Code = "method_not_allowed"
	RateLimited  Code = "rate_limited"      // by a limit of query-api, not of a model
	KeysUnknown  Code = "keys_unavailable"  // the store of the API keys does not answer
	QuotaUnknown Code = "quota_unavailable" // the store that counts quotas does not answer

	// EndpointRefused and CorpusRefused are what a run asks for and the configuration of this process does not allow.
	EndpointRefused Code = "endpoint_refused"
	CorpusRefused   Code = "corpus_refused"

	// Corpus.
	CorpusMissing   Code = "corpus_missing"
	CorpusEmpty     Code = "corpus_empty"
	DuplicateRow    Code = "duplicate_row_id"
	Unreadable      Code = "unreadable_document"
	Encrypted       Code = "encrypted_document"
	BinaryContent   Code = "binary_content"
	EmptyDocument   Code = "empty_document"
	PartsMissing    Code = "parts_missing" // a document is used, and some of it could not be read
	DocumentChanged Code = "document_changed"
	NotFollowed     Code = "not_followed" // a link, pipe, socket or device in a corpus

	// Documents that break the process that parses them, or a whole worker.
	ParseCrashed Code = "parse_crashed"
	ParseMemory  Code = "parse_memory"
	ParseTimeout Code = "parse_timeout"
	Quarantined  Code = "document_quarantined" // workers died while they read it

	// Model servers.
	ModelUnavailable Code = "model_unavailable"
	ModelRateLimited Code = "model_rate_limited"
	ModelAuth        Code = "model_auth"
	ModelUnknown     Code = "model_unknown"
	ModelQuota       Code = "model_quota"
	PicturesRefused  Code = "pictures_refused" // a model of models.vision takes none
	ModelRejected    Code = "model_rejected"   // the model will not have this text
	ModelRefused     Code = "model_refused"    // the server will not serve the request, for no reason that is the text's
	ModelUnreadable  Code = "model_unreadable" // the server says that it answers, with what cannot be decoded
	BadOutput        Code = "bad_model_output"
	BadVector        Code = "bad_vector"
	BadEmbeddings    Code = "bad_embeddings"
	BadRerank        Code = "bad_rerank" // scores that are missing, doubled or no numbers
	DimensionChanged Code = "dimension_changed"
	NotRecorded      Code = "not_recorded"

	// Stores.
	Precondition  Code = "precondition_failed"
	StoreDown     Code = "store_unavailable"
	StoreFull     Code = "store_full"
	StoreDenied   Code = "store_denied"
	StoreOwned    Code = "store_owned_by_another"
	SegmentDamage Code = "segment_damaged"
	LedgerDamage  Code = "ledger_damaged" // what was paid for and cannot be read is paid for again
	FormatUnknown Code = "format_unknown" // whole, but of another version than this program reads
	// Drift is what an audit found to be otherwise than it was written, and did not mend.
	Drift Code = "drift"
	// ParentDamaged is a segment that an earlier build wrote and this one re-uses: everything is made again.
	ParentDamaged Code = "parent_damaged"
	// Outgrown is a corpus that has grown so that a part of it cannot be built alone: everything is made again.
	Outgrown Code = "outgrown"

	// Runs.
	LeaseHeld    Code = "lease_held"
	LeaseLost    Code = "lease_lost" // the run goes on though another may build in its place
	PointerMoved Code = "pointer_moved"
	PlanMoved    Code = "plan_moved" // a plan is not what would be done any more
	Paused       Code = "paused"
	BudgetSpent  Code = "budget_spent"
	Cancelled    Code = "cancelled"
	Stalled      Code = "stalled"

	// ControlUnreadable is a control record or an account that cannot be understood.
	ControlUnreadable Code = "control_unreadable"
	ParserDown        Code = "parser_unavailable" // no process that parses can be started on this machine
	Internal          Code = "internal"
	EmbedderDown      Code = "embedder_unavailable"
	GenBusy           Code = "generation_busy"
	EngineDown        Code = "engine_unavailable"
	NoControl         Code = "no_control" // query-api was not given control of builds
	RunNotFound       Code = "unknown_run"
	// ActivityFailed is given by workflows: an activity ended without telling why, as often as it may.
	ActivityFailed Code = "activity_failed"
	RunEnded       Code = "run_ended"
	Interrupted    Code = "interrupted"         // a command, by who gave it: what it began is as its hint says
	WebhookDown    Code = "webhook_unavailable" // notify.webhook does not take a notice
)

// Kind says how a failure heals, and so who acts on it.
type Kind int

// The kinds, from mildest to hardest.
const (
	Transient Kind = iota // the same call may succeed later: retried by the engine
	Content               // this item will fail again: it becomes a dead letter, its batch goes on
	Fatal                 // every item would fail: the run pauses or ends, nothing is burnt
	Bad                   // the caller's input: reported, never retried
)

// Kind returns the kind of the code; a code without one is a fault of this program.
func (c Code) Kind() Kind { return c.Meaning().Kind }

// IsKnown reports whether the code is one of those above.
func IsKnown(code Code) bool {
	_, ok := meanings[code]
	return ok
}

// Codes lists every code.
func Codes() []Code { return slices.Sorted(maps.Keys(meanings)) }

// longestQuoted bounds what is shown of a name that is none, in bytes.
const longestQuoted = 100

// QuoteName returns a name from outside that is none, fit to be shown: quoted, and not longer than people read.
func QuoteName(name string) string {
	if len(name) > longestQuoted {
		return strconv.Quote(name[:longestQuoted]) + "…"
	}
	return strconv.Quote(name)
}

// Error is the one error type that crosses package borders. Err may be nil.
type Error struct {
	Code       Code
	Kind       Kind
	Op         string        // what was being done: "read document"
	Object     string        // on what: a key, a setting, a file
	Hint       string        // what to do
	RetryAfter time.Duration // a server's own wish; zero when it said nothing. Read it by RetryAfter, which bounds it
	Err        error
}

// Error renders "op object: cause: hint" and leaves empty parts out, and secrets: what stores or shows an error has
// its text from here.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Op)
	if e.Object != "" {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(e.Object)
	}
	if e.Err != nil {
		if text.Len() > 0 {
			text.WriteString(": ")
		}
		text.WriteString(e.Err.Error())
	}
	if text.Len() == 0 {
		text.WriteString(string(e.Code))
	}
	if e.Hint != "" {
		text.WriteString(" (" + e.Hint + ")")
	}
	return redact.Text(text.String())
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// At starts an error of this code: what was being done, and on which object. Its kind is the code's.
func (c Code) At(op, object string) *Error {
	return &Error{Code: c, Kind: c.Kind(), Op: op, Object: object}
}

// Because adds the cause: an error, a sentence, or nil for none.
func (e *Error) Because(cause any) *Error {
	switch c := cause.(type) {
	case error:
		e.Err = c
	case string:
		e.Err = errors.New(c)
	case nil:
	default:
		e.Err = fmt.Errorf("%v", c)
	}
	return e
}

// Advise adds what a person can do about it.
func (e *Error) Advise(hint string) *Error {
	e.Hint = hint
	return e
}

// As finds the Error in err's chain, or nil.
func As(err error) *Error {
	found, _ := errors.AsType[*Error](err)
	return found
}

// CodeOf returns the code in err's chain, Internal for other errors, empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e := As(err); e != nil {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// KindOf returns the kind in err's chain. An expired deadline is transient; any other error without a class is a
// fault of this program, which repeating does not mend.
func KindOf(err error) Kind {
	if e := As(err); e != nil {
		return e.Kind
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return Transient
	}
	return Fatal
}

// asked are codes whose kind says how a run gets over them; as the answer to a command they say that what was asked for
// cannot be as things stand, which the caller can change.
var asked = map[Code]bool{
	LeaseHeld: true, BudgetSpent: true, CorpusMissing: true, CorpusRefused: true, EndpointRefused: true,
}

// IsRefusal says of the error that ends a command whether the command is refused: for its input, for the configuration,
// or as a run stands. Else it failed. What ends a command so exits with 2.
func IsRefusal(err error) bool {
	return err != nil && (KindOf(err) == Bad || asked[CodeOf(err)])
}

// LongestRetryAfter bounds what a server may ask to be waited for: no answer puts a run to sleep for years.
const LongestRetryAfter = 5 * time.Minute

// RetryAfter returns the wait that a server asked for, at most LongestRetryAfter, or zero.
func RetryAfter(err error) time.Duration {
	if e := As(err); e != nil {
		return min(max(0, e.RetryAfter), LongestRetryAfter)
	}
	return 0
}
