package control

import (
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
)

// ScheduleRequest is what a configuration says of the nights of an index.
type ScheduleRequest struct {
	Spec     core.Spec       `json:"spec"`
	Schedule config.Schedule `json:"schedule"`
	Priority Priority        `json:"priority,omitzero"`
	Paused   *bool           `json:"paused,omitempty"` // of one that is created; nil: as it was kept
	Note     string          `json:"note,omitempty"`   // why it is paused
	core.Files
}

// What applying a schedule did.
const (
	ScheduleCreated   = "created"
	ScheduleChanged   = "changed"
	ScheduleUnchanged = "unchanged"
)

// Applied says what applying a schedule did. Catchup is at least what the longest of the last runs took.
type Applied struct {
	Index   string        `json:"index"`
	Change  string        `json:"change"`
	Paused  bool          `json:"paused,omitempty"`
	Catchup core.Duration `json:"catchup"`
	Next    []time.Time   `json:"next,omitempty"`
}

// Scheduled says how a schedule stands.
type Scheduled struct {
	Index      string        `json:"index"`
	Paused     bool          `json:"paused"`
	Note       string        `json:"note,omitempty"`
	Timezone   string        `json:"timezone"`
	Catchup    core.Duration `json:"catchup"`
	Next       []time.Time   `json:"next,omitempty"`       // the next three; none while it is paused
	Nights     []NightRun    `json:"nights"`               // the last ones, the newest first
	Missed     int           `json:"missed,omitempty"`     // nights later than catchup, so that they did not begin
	Overlapped int           `json:"overlapped,omitempty"` // nights that the engine skipped, as one went on
}

// NightRun is one night of a schedule.
type NightRun struct {
	Due    time.Time `json:"due"`
	Begun  time.Time `json:"begun"`
	Run    string    `json:"run,omitempty"`
	Status string    `json:"status"` // of the run, or skipped
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // of a skipped night: the run that was building the index
}

// Triggered says that a night begins, or which run goes on, so that none does.
type Triggered struct {
	Index   string `json:"index"`
	Running string `json:"running,omitempty"`
}
