package core

import "time"

// Actions of operators that the audit trail records.
const (
	ActionRollback = "rollback"
	ActionPublish  = "publish"
	ActionDiscard  = "discard"
	ActionTag      = "tag"
	ActionUntag    = "untag"
	ActionPause    = "pause"
	ActionResume   = "resume"
	ActionCancel   = "cancel"
	ActionLimit    = "limit"
	ActionLost     = "cancel --lost"
	ActionRestore  = "restore"
	ActionBranch   = "branch"
	ActionUnbranch = "branch --delete"
	ActionPromote  = "promote"
	ActionDelete   = "delete"
	ActionBackfill = "backfill"
	ActionPurge    = "purge"
	ActionReadmit  = "readmit"

	ActionRetry          = "retry-failed"
	ActionDiscardLetters = "dead-letters discard"
	ActionPauseNights    = "schedule pause"
	ActionResumeNights   = "schedule resume"
	ActionDeleteNights   = "schedule delete"
)

// Operator is who asks for something, and why.
type Operator struct {
	By     string `json:"by"`            // as the caller says: user@host where nothing else is given
	Via    string `json:"via,omitempty"` // what was proven: the id of an API key, or that the owner's token was shown
	Reason string `json:"reason,omitempty"`
}

// Operation is one record of the audit trail: what an operator asked for, written before it takes effect.
type Operation struct {
	ID     string    `json:"id"` // <time>-<random>, rising with time
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	Index  string    `json:"index"`
	Operator
	Run    string `json:"run,omitempty"`    // of actions on runs
	From   string `json:"from,omitempty"`   // generation that was served
	To     string `json:"to,omitempty"`     // generation that it is about
	Name   string `json:"name,omitempty"`   // of a tag or a branch; the digests of purged documents
	Change string `json:"change,omitempty"` // of a limit: what a run was given
	Forced bool   `json:"forced,omitempty"` // though what it was made from is not served any more

	// Outcome is how it ended. Nil: it was not recorded, so that it may or may not have taken effect.
	Outcome *OperationOutcome `json:"outcome,omitempty"`
}

// OperationOutcome is how an operation ended.
type OperationOutcome struct {
	At      time.Time `json:"at"`
	Result  string    `json:"result"` // done | failed
	Code    string    `json:"code,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Release int64     `json:"release,omitempty"` // epoch of the pointer that it wrote
}

// Results of operations.
const (
	OperationDone   = "done"
	OperationFailed = "failed"
)

// Move is what a command about a generation came to.
type Move struct {
	Index     string `json:"index"`
	Action    string `json:"action"`
	From      string `json:"from,omitempty"` // generation that was served
	To        string `json:"to"`             // generation that it is about
	Name      string `json:"name,omitempty"` // of a tag, or of a branch
	Release   int64  `json:"release,omitempty"`
	Unchanged bool   `json:"unchanged"`           // there was nothing to do
	Operation string `json:"operation,omitempty"` // id in the audit trail; empty: nothing was done

	// Set are the settings that a promoted branch brought along, which the file must say from now on.
	Set map[string]string `json:"set,omitempty"`
}
