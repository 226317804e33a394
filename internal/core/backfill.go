package core

import (
	"fmt"
	"strings"
	"time"
)

// BackfillChoice is what a backfill is for: documents of the listing that all of these fit. It chooses something at
// least: the zero value is none.
type BackfillChoice struct {
	Prefix    string    `json:"prefix,omitempty"`    // of document keys
	From      time.Time `json:"from,omitzero"`       // objects modified then or later
	To        time.Time `json:"to,omitzero"`         // objects modified before then
	Documents []string  `json:"documents,omitempty"` // keys; that of an object stands for all of its rows
	// Purged counts names of documents that were left out as they were purged: what is left chooses no more for it, be
	// it nothing.
	Purged int `json:"purged,omitempty"`
}

// DropPurged returns the choice without the documents that are purged.
func (c BackfillChoice) DropPurged(purged func(document string) bool) BackfillChoice {
	kept := make([]string, 0, len(c.Documents))
	for _, key := range c.Documents {
		if !purged(key) {
			kept = append(kept, key)
		}
	}
	c.Purged += len(c.Documents) - len(kept)
	if c.Documents = kept; c.Prefix != "" && purged(c.Prefix) {
		c.Prefix, c.Purged = "", c.Purged+1
	}
	return c
}

// IsZero reports whether nothing is chosen.
func (c BackfillChoice) IsZero() bool {
	return c.Prefix == "" && c.From.IsZero() && c.To.IsZero() && len(c.Documents) == 0 && c.Purged == 0
}

// Equal reports whether two choices are the same.
func (c BackfillChoice) Equal(other BackfillChoice) bool {
	return c.Prefix == other.Prefix && c.From.Equal(other.From) && c.To.Equal(other.To) &&
		strings.Join(c.Documents, "\x00") == strings.Join(other.Documents, "\x00")
}

// FindMistake says what is wrong with a choice; empty: nothing.
func (c BackfillChoice) FindMistake() string {
	switch {
	case c.IsZero():
		return "nothing is chosen"
	case !c.From.IsZero() && !c.To.IsZero() && !c.From.Before(c.To):
		return fmt.Sprintf("from %s to %s is no time", c.From.Format(time.RFC3339), c.To.Format(time.RFC3339))
	}
	return ""
}

// NewChooser says of a document, by its key and the time of its object, whether it is chosen.
func (c BackfillChoice) NewChooser() func(key string, modified time.Time) bool {
	listed := make(map[string]bool, len(c.Documents))
	for _, key := range c.Documents {
		listed[key] = true
	}
	return func(key string, modified time.Time) bool {
		object, _, _ := strings.Cut(key, "#")
		return strings.HasPrefix(key, c.Prefix) &&
			(len(listed) == 0 && c.Purged == 0 || listed[key] || listed[object]) &&
			(c.From.IsZero() || !modified.Before(c.From)) &&
			(c.To.IsZero() || modified.Before(c.To))
	}
}

// BackfillThrottle slows a backfill down below the limits that it shares with everything else.
type BackfillThrottle struct {
	Concurrency    int `json:"concurrency,omitempty"`      // calls in flight; 0: DefaultBackfillConcurrency
	CallsPerMinute int `json:"calls_per_minute,omitempty"` // on average; 0: as many as the limits let
}

// DefaultBackfillConcurrency is how many calls a backfill has in flight where nothing is said.
const DefaultBackfillConcurrency = 16

// mostBackfillConcurrency is the largest part of a unit that is asked for at once.
const mostBackfillConcurrency = 64

// FindMistake says what is wrong with a throttle; empty: nothing.
func (t BackfillThrottle) FindMistake() string {
	switch {
	case t.Concurrency < 0 || t.Concurrency > mostBackfillConcurrency:
		return fmt.Sprintf("a concurrency of %d: want 1 to %d", t.Concurrency, mostBackfillConcurrency)
	case t.CallsPerMinute < 0:
		return fmt.Sprintf("%d calls a minute: want 1 or more", t.CallsPerMinute)
	}
	return ""
}

// batchesAMinute is into how many parts the calls of a minute are cut, so that they do not come all at once.
const batchesAMinute = 6

// Batch returns how many chunks are asked for at once, before the throttle is looked at again.
func (t BackfillThrottle) Batch() int {
	batch := t.Concurrency
	if batch == 0 {
		batch = DefaultBackfillConcurrency
	}
	if t.CallsPerMinute > 0 {
		batch = min(batch, max(1, t.CallsPerMinute/batchesAMinute))
	}
	return batch
}

// BackfillPaying is the status of a backfill that extracts and embeds what is chosen, into the ledger. A build that
// adds it to what is served is publishing; the others are those of runs.
const BackfillPaying = "paying"

// Backfill is a backfill of an index: what it is for, and how it stands.
type Backfill struct {
	Index    string           `json:"index"`
	Name     string           `json:"name"`
	Run      string           `json:"run"` // of its payments; a backfill that is begun again has another
	Choice   BackfillChoice   `json:"choice"`
	Throttle BackfillThrottle `json:"throttle,omitzero"`
	Started  time.Time        `json:"started"`
	Operator
	BackfillState
	BackfillProgress
}

// BackfillState is what its workflow says of a backfill.
type BackfillState struct {
	Status string    `json:"status"` // of a run, BackfillPaying or publishing
	Code   string    `json:"code,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`

	Base       string          `json:"base,omitempty"`       // generation that was served when it began
	Builds     []BackfillBuild `json:"builds,omitempty"`     // that were to publish it, the last one last
	Generation string          `json:"generation,omitempty"` // that it published
	Parent     string          `json:"parent,omitempty"`     // what that was made from
	// Rebased says that Parent is not Base: something else was published meanwhile, and this was made on top of it.
	Rebased bool `json:"rebased,omitempty"`
}

// BackfillBuild is a build that was to publish a backfill.
type BackfillBuild struct {
	Run    string `json:"run"`
	Parent string `json:"parent,omitempty"` // generation that was served when it began
	// Why another one was needed: yielded (another build wanted the lease, and went first), pointer_moved (something else
	// was published meanwhile), lease_held (another build began at the same moment) or paused.
	Why string `json:"why,omitempty"`
}

// BackfillProgress is how far the payments are.
type BackfillProgress struct {
	Documents      int64   `json:"documents"` // that are chosen and not served as they are
	Units          int     `json:"units"`     // into which they are cut
	UnitsDone      int     `json:"units_done"`
	ChunksDone     int64   `json:"chunks_done"`
	ChunksBefore   int64   `json:"chunks_before,omitempty"` // of these, those of units that are done
	Bytes          int64   `json:"bytes"`
	BytesDone      int64   `json:"bytes_done"`
	WorkedSeconds  float64 `json:"worked_seconds"`      // without pauses and waits
	YieldsTo       string  `json:"yields_to,omitempty"` // run that it waits for
	Calls          Calls   `json:"calls"`               // that were paid for
	Tokens         Tokens  `json:"tokens"`              // of these
	Cost           float64 `json:"cost"`                // of these
	LedgerHits     Calls   `json:"ledger_hits"`         // what was there already
	ChunksASecond  float64 `json:"rate"`                // since it began, without pauses and waits
	SecondsLeft    float64 `json:"eta_seconds"`         // of the payments; -1: not known
	PublishedCalls Calls   `json:"published_calls"`     // of the build that published it
	Progress       float64 `json:"progress"`            // of the payments, 0 to 1
}

// FillEstimates fills what follows from the other figures.
func (p *BackfillProgress) FillEstimates() {
	p.SecondsLeft = -1
	if p.Bytes > 0 {
		p.Progress = min(1, float64(p.BytesDone)/float64(p.Bytes))
	}
	if p.WorkedSeconds > 0 {
		p.ChunksASecond = float64(p.ChunksDone) / p.WorkedSeconds
	}
	if p.Progress > 0 && p.WorkedSeconds > 0 {
		p.SecondsLeft = p.WorkedSeconds * (1 - p.Progress) / p.Progress
	}
}
