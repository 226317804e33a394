// Package fault gives every error that can reach a person the same four parts: what failed (Code and Op), on which
// object, why (the wrapped cause) and what to do about it (Hint). It also says how the failure heals, so that one
// place (activities) maps it to a retry policy and one place (query-api) maps it to an HTTP status.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
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

	// Corpus.
	CorpusMissing   Code = "corpus_missing"
	CorpusEmpty     Code = "corpus_empty"
	DuplicateRow    Code = "duplicate_row_id"
	UnknownType     Code = "unknown_type"
	Unreadable      Code = "unreadable_document"
	Encrypted       Code = "encrypted_document"
	BinaryContent   Code = "binary_content"
	EmptyDocument   Code = "empty_document"
	DocumentChanged Code = "document_changed"

	// Model servers.
	ModelUnavailable Code = "model_unavailable"
	ModelRateLimited Code = "model_rate_limited"
	ModelAuth        Code = "model_auth"
	ModelUnknown     Code = "model_unknown"
	ModelQuota       Code = "model_quota"
	ModelRejected    Code = "model_rejected"
	BadOutput        Code = "bad_model_output"
	BadVector        Code = "bad_vector"
	DimensionChanged Code = "dimension_changed"
	NotRecorded      Code = "not_recorded"

	// Stores.
	Precondition  Code = "precondition_failed"
	StoreDown     Code = "store_unavailable"
	StoreFull     Code = "store_full"
	StoreDenied   Code = "store_denied"
	StoreOwned    Code = "store_owned_by_another"
	SegmentDamage Code = "segment_damaged"

	// Runs.
	LeaseHeld    Code = "lease_held"
	PointerMoved Code = "pointer_moved"
	Paused       Code = "paused"
	BudgetSpent  Code = "budget_spent"
	Internal     Code = "internal"
	EmbedderDown Code = "embedder_unavailable"
	GenBusy      Code = "generation_busy"
	EngineDown   Code = "engine_unavailable"
	RunNotFound  Code = "unknown_run"
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

// Error is the one error type that crosses package borders. Err may be nil.
type Error struct {
	Code       Code
	Kind       Kind
	Op         string        // what was being done: "read document"
	Object     string        // on what: a key, a setting, a file
	Hint       string        // what to do
	RetryAfter time.Duration // a server's own wish; zero when it said nothing
	Err        error
}

// Error renders "op object: cause: hint" and leaves empty parts out.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Object)
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	if b.Len() == 0 {
		b.WriteString(string(e.Code))
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of a kind. cause may be a string, an error or nil.
func New(code Code, kind Kind, op, object string, cause any, hint string) *Error {
	e := &Error{Code: code, Kind: kind, Op: op, Object: object, Hint: hint}
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

// As finds the Error in err's chain, or nil.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// CodeOf is the code in err's chain, Internal for other errors, empty for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e := As(err); e != nil {
		return e.Code
	}
	return Internal
}

// Is tells whether err carries the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// KindOf is the kind in err's chain; unknown errors count as transient, since a retry loses nothing.
func KindOf(err error) Kind {
	if e := As(err); e != nil {
		return e.Kind
	}
	return Transient
}

// RetryAfter is the wait that a server asked for, or zero.
func RetryAfter(err error) time.Duration {
	if e := As(err); e != nil {
		return e.RetryAfter
	}
	return 0
}
