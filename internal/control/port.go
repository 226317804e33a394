// Package control is what the command line asks for, without what does it: it weighs nothing, so that a program that
// asks over HTTP links neither Temporal's client nor those of the stores.
package control

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// IndexRequest starts a build.
type IndexRequest struct {
	Spec          core.Spec `json:"spec"`
	Generation    string    `json:"generation"` // empty: attach to a running build, else the start time
	ReplaceCorpus bool      `json:"replace_corpus"`
	Once          string    `json:"once,omitempty"` // names the request: sent again, it is answered by the run it began
	Rebuild       bool      `json:"rebuild"`        // trust nothing that earlier builds wrote but what was paid for
	Priority      Priority  `json:"priority,omitzero"`
	core.Files

	// Of an estimate: a document to explain, whether the plan is wanted, and that nothing but the plan is.
	Why      string `json:"why,omitempty"`
	Listed   bool   `json:"listed,omitempty"`
	Unpriced bool   `json:"unpriced,omitempty"`
	Accounts bool   `json:"accounts,omitempty"`
	// Expected is what a plan expects of the build, for its report.
	Expected *core.Estimate `json:"expected,omitempty"`
}

// ReadFiles adds what lies in files of this machine that the specification names.
func (r *IndexRequest) ReadFiles() (err error) {
	r.Files, err = config.ReadFiles(&r.Spec)
	return err
}

// Priority of a run among those of other indexes: indexes.*.priority. Zero values are the server's.
type Priority struct {
	Level  int     `json:"level,omitempty"`
	Weight float64 `json:"weight,omitempty"`
}

// AuditRequest starts an audit.
type AuditRequest struct {
	Index  string      `json:"index"`
	Sample core.Sample `json:"sample"`
	Repair bool        `json:"repair"` // write again what the stores lost
}

// MoveRequest asks for what needs no build: core.ActionRollback, ActionPublish, ActionDiscard, ActionTag,
// ActionUntag, or, of a branch, ActionPromote.
type MoveRequest struct {
	Action     string    `json:"action"`
	Index      string    `json:"index"`
	Generation string    `json:"generation,omitempty"` // of a rollback it may be empty: what the current one was made from
	To         time.Time `json:"to,omitzero"`          // of a rollback: what was served then
	Name       string    `json:"name,omitempty"`       // of a tag
	Base       string    `json:"base,omitempty"`       // of a promotion: the base that is expected; empty: any
	Force      bool      `json:"force,omitempty"`      // publish though what it was made from is not served any more

	KeepLabels bool `json:"keep_labels,omitempty"` // serve no generation without labels in place of one with labels
}

// BranchRequest makes a branch of an index, or deletes one.
type BranchRequest struct {
	Index      string            `json:"index"`
	Name       string            `json:"name"`
	Generation string            `json:"generation,omitempty"` // to begin with; empty: what is served
	Set        map[string]string `json:"set,omitempty"`        // settings in which it differs, by paths below the index
	Delete     bool              `json:"delete,omitempty"`
}

// AllWatched in place of an id removes all standing questions, also those that cannot be read.
const AllWatched = "all"

// WatchRequest adds standing questions to an index, or removes the one of an id. With neither it asks which there are.
type WatchRequest struct {
	Index   string          `json:"index"`
	Add     []core.Question `json:"add,omitempty"` // those of the same text and labels are replaced
	Remove  string          `json:"remove,omitempty"`
	Readers core.Readers    `json:"readers"` // who asks: questions with labels that they do not hold are unknown to them
}

// DeleteRequest asks for an index to be deleted.
type DeleteRequest struct {
	Index     string `json:"index"`
	DryRun    bool   `json:"dry_run,omitempty"`   // show what would go, and delete nothing
	Confirmed bool   `json:"confirmed,omitempty"` // without it nothing is deleted: it cannot be undone
}

// Overlaid is what the store says of the configuration of an index.
type Overlaid struct {
	core.Overlay
	Corpus string `json:"corpus,omitempty"` // of a branch's base, where the file names none
}

// DifferenceRequest asks what changed from one generation to another.
type DifferenceRequest struct {
	Index string `json:"index"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// AliasesRequest asks which names are mapped in what is served, and which may be one.
type AliasesRequest struct {
	Index   string  `json:"index"`
	Suggest bool    `json:"suggest,omitempty"`
	File    []byte  `json:"file,omitempty"`    // what people said before
	Classes int     `json:"classes,omitempty"` // how many are compared, the most mentioned first
	Cosine  float64 `json:"cosine,omitempty"`  // the least of a pair; 0: the default
	Refused bool    `json:"refused,omitempty"` // also list the pairs that a guard refuses
}

// LettersRequest names dead letters by their chunks.
type LettersRequest struct {
	Name   string   `json:"name"`             // an index; of a retry a run too
	Chunks []string `json:"chunks,omitempty"` // of a retry: none stands for all that were not discarded
	Why    string   `json:"why,omitempty"`    // of a discard
}

// BackfillRequest begins a backfill, or goes on with one that ended before it was published.
type BackfillRequest struct {
	Index    string                `json:"index"`
	Name     string                `json:"name"`
	Choice   core.BackfillChoice   `json:"choice,omitzero"`   // none: that of the backfill of this name
	Throttle core.BackfillThrottle `json:"throttle,omitzero"` // none: likewise, where the choice is
}

// BackfillStarted is what came of it.
type BackfillStarted struct {
	Index    string `json:"index"`
	Name     string `json:"name"`
	Attached bool   `json:"attached"` // it runs already: nothing was begun
	Again    bool   `json:"again"`    // one of this name was there, and goes on
}

// BackfillNamed names a backfill.
type BackfillNamed struct {
	Index string `json:"index"`
	Name  string `json:"name,omitempty"` // of a list: none

	Budget *core.Budget `json:"budget,omitempty"` // of a resume: what its payments may come to, from their beginning
}

// Run names a run.
type Run struct {
	Run      string `json:"run"`
	RunID    string `json:"run_id,omitempty"` // of its workflow, where it is known
	Attached bool   `json:"attached"`

	Schedule string `json:"schedule,omitempty"`  // of a restore: what came of the schedule that the engine had lost
	NoCorpus string `json:"no_corpus,omitempty"` // of a restore: why the corpus cannot be read; the next build will fail

	// Begun is since when a joined run goes on: it compares with the corpus as it found it from then on, and what was
	// changed later may not be in it. nil: nothing was joined, or the run has yet to begin.
	Begun *time.Time `json:"begun,omitempty"`
}

// ExactName names this run alone, for Status: not one that had the same name before it.
func (r Run) ExactName() string {
	if r.RunID == "" {
		return r.Run
	}
	return r.Run + RunMark + r.RunID
}

// RunMark stands between the name of a run and the id of its workflow's run. It is in no name.
const RunMark = "#"

// Status is a report with what runs now.
type Status = runlog.Run

// Stopped is what a pause or a cancel met.
type Stopped struct {
	// InFlight counts the calls to models that were sent and not answered when the command bound: they are paid for and
	// kept. Nil: the worker of the run reports none.
	InFlight *int64 `json:"in_flight,omitempty"`
}

// LimitRequest gives a run other limits of its calls to models, or another budget. What is nil stays as it was.
type LimitRequest struct {
	Run    string           `json:"run"`
	Limits *core.LiveLimits `json:"limits,omitempty"`
	Budget *core.Budget     `json:"budget,omitempty"` // from the run's beginning
}

// Check is one probe of doctor.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Names of the checks of doctor that workers poll the task queues.
const (
	CheckWorker    = "worker"
	CheckComputing = "computing worker"
)

// Control is the port of the command line; Of makes one of what does the work.
type Control = *Calls

// Calls are the methods of a Control. Errors are faults. A run is index/generation; where one is asked for, an index
// stands for its newest run. A tag names a method where it is carried, and its arguments where it has not one request.
type Calls struct {
	BuildIndex func(ctx context.Context, r IndexRequest) (Run, error) `call:"index"`
	// EstimateBuild says what a build would do and cost. It takes nothing: no lease, no run, no key, no model, no write.
	EstimateBuild func(ctx context.Context, r IndexRequest) (core.Estimated, error) `call:"estimate"`
	ReadStatus    func(ctx context.Context, run string) (Status, error)             `call:"status name"`
	// PauseRun returns once no paid call of the run can start any more; what is in flight is paid for and kept.
	PauseRun func(ctx context.Context, run string) (Stopped, error) `call:"pause name"`
	// ResumeRun goes on with a paused run; budget, where not nil, is what it may pay for from its beginning.
	ResumeRun func(ctx context.Context, run string, budget *core.Budget) error `call:"resume name budget"`
	// CancelRun returns once no paid call of the run can start any more.
	CancelRun func(ctx context.Context, run string) (Stopped, error) `call:"cancel name"`
	// LimitRun gives a run that is not over other limits or another budget, effective within two seconds.
	LimitRun func(ctx context.Context, r LimitRequest) error `call:"limit"`
	// MarkLost declares that a run will never go on, whose engine is gone or does not know it, and frees the lease of its
	// index. It is refused while the engine runs it or a process renews the lease; where the lease cannot be read, run
	// is the index, and a new one is written.
	MarkLost        func(ctx context.Context, run string) error                            `call:"lost name"`
	ListGenerations func(ctx context.Context, index string) ([]artifact.Generation, error) `call:"generations name"`
	// ChangeBranch makes a branch of an index, or deletes one. It is an operation.
	ChangeBranch func(ctx context.Context, r BranchRequest) (core.Branch, error) `call:"branch"`
	// DeleteIndex deletes everything of an index, or shows what would go. It is an operation, and may be repeated.
	DeleteIndex func(ctx context.Context, r DeleteRequest) (core.Deletion, error) `call:"delete"`
	// ListBranches lists the branches of an index.
	ListBranches func(ctx context.Context, index string) ([]core.Branch, error) `call:"branches name"`
	// WatchQuestions adds standing questions to an index, all or none, or removes one, and returns those. Asked for
	// neither, it returns all that there are, in the order in which they were added.
	WatchQuestions func(ctx context.Context, r WatchRequest) ([]core.Question, error) `call:"watch"`
	// ReadOverlay says what the store says of the configuration of an index: every command that resolves it asks first.
	ReadOverlay func(ctx context.Context, index string) (Overlaid, error) `call:"overlay name"`
	// MoveGeneration changes what is served, or what is kept, among the generations that are there. It is an operation.
	MoveGeneration func(ctx context.Context, r MoveRequest) (core.Move, error) `call:"move"`
	// CompareGenerations returns what changed from one generation to another; see release.Difference for names left empty.
	CompareGenerations func(ctx context.Context, r DifferenceRequest) (core.Difference, error) `call:"diff"`
	// ListAliases lists the names that are mapped, and suggests pairs.
	ListAliases func(ctx context.Context, r AliasesRequest) (core.AliasList, error) `call:"aliases"`
	// ListOperations gives the newest records of the audit trail of an index, the last first. 0 gives all.
	ListOperations func(ctx context.Context, index string, n int) ([]core.Operation, error) `call:"operations index limit"`
	// ListIndexes describes every index.
	ListIndexes func(ctx context.Context) ([]runlog.Card, error) `call:"indexes"`
	// ListRuns lists the newest runs, the last begun first: of an index, or of all where it is empty. 0 lists all.
	ListRuns func(ctx context.Context, index string, limit int) ([]runlog.Summary, error) `call:"runs index limit"`
	// ReadTrends gives the last nights of an index, or of each where it is empty.
	ReadTrends func(ctx context.Context, index string, nights int) ([]runlog.Trends, error) `call:"trends index limit"`
	// ReadLog returns everything that the stores hold about a run.
	ReadLog      func(ctx context.Context, run string) (runlog.Log, error) `call:"log name"`
	RestoreIndex func(ctx context.Context, index string) (Run, error)      `call:"restore name"`
	// AuditIndex compares the served generation with what it was made of, and with what the stores hold.
	AuditIndex func(ctx context.Context, r AuditRequest) (Run, error) `call:"audit"`
	// MoveImage pushes or pulls an image, in the process that owns the stores.
	MoveImage func(ctx context.Context, r core.ImageRequest) (core.Transfer, error) `call:"image"`
	// ReadTransfer returns how far the move that this request began is; zero: it runs no more, or not yet.
	ReadTransfer func(ctx context.Context, r core.ImageRequest) (core.Transfer, error) `call:"transfer"`
	RunDoctor    func(ctx context.Context, spec core.Spec) ([]Check, error)            `call:"doctor"`
	// DeadLetters lists the chunks of the published generation that nothing could be extracted from.
	DeadLetters func(ctx context.Context, index string) ([]core.Letter, error) `call:"dead-letters name"`
	// DeadLetter is one of them, with the chunk's text.
	DeadLetter func(ctx context.Context, index, chunk string) (core.Letter, error) `call:"dead-letter index chunk"`
	// DiscardLetters marks dead letters that need no more attention.
	DiscardLetters func(ctx context.Context, r LettersRequest) error `call:"discard-letters"`
	// ApplySchedule makes the schedule of an index what its configuration says; a paused one stays paused.
	ApplySchedule func(ctx context.Context, r ScheduleRequest) (Applied, error) `call:"schedule-apply"`
	// ListSchedules says how all schedules stand.
	ListSchedules func(ctx context.Context) ([]Scheduled, error) `call:"schedules"`
	// ReadSchedule says how the schedule of an index stands; fault.NotFound where it has none.
	ReadSchedule func(ctx context.Context, index string) (Scheduled, error) `call:"schedule name"`
	// PauseSchedule has no night begin until ResumeSchedule.
	PauseSchedule  func(ctx context.Context, index, note string) error `call:"schedule-pause index note"`
	ResumeSchedule func(ctx context.Context, index, note string) error `call:"schedule-resume index note"`
	// TriggerSchedule begins a night now; where a build of the index runs it names that and does nothing.
	TriggerSchedule func(ctx context.Context, index string) (Triggered, error) `call:"schedule-trigger index"`
	DeleteSchedule  func(ctx context.Context, index string) error              `call:"schedule-delete index"`
	// StartBackfill begins a backfill. One that runs already is left as it is, and the answer says so.
	StartBackfill func(ctx context.Context, r BackfillRequest) (BackfillStarted, error) `call:"backfill"`
	// ListBackfills says how the backfills of an index stand, the last begun first; or that of a name.
	ListBackfills func(ctx context.Context, r BackfillNamed) ([]core.Backfill, error) `call:"backfills"`
	PauseBackfill func(ctx context.Context, r BackfillNamed) error                    `call:"backfill-pause"`
	// ResumeBackfill goes on with a backfill that is paused, or ended before it was published; what was paid for is kept.
	ResumeBackfill func(ctx context.Context, r BackfillNamed) error `call:"backfill-resume"`
	// CancelBackfill returns once no paid call of the backfill can start any more.
	CancelBackfill func(ctx context.Context, r BackfillNamed) error `call:"backfill-cancel"`
	// RetryFailed builds a generation in which the documents with dead letters are asked for again, and nothing else is
	// touched. A run without a name: nothing failed.
	RetryFailed func(ctx context.Context, r LettersRequest) (Run, error) `call:"retry-failed"`
	// PurgeDocuments begins a run that does nothing else, or goes on with a purge of the same documents that did not end.
	PurgeDocuments func(ctx context.Context, r PurgeRequest) (PurgeAnswer, error)   `call:"purge"`
	ListPurges     func(ctx context.Context, r PurgesRequest) (PurgesAnswer, error) `call:"purges"`
}

// Of returns a control whose methods are those of a type with every one of them. It panics where one is missing.
func Of(does any) Control {
	out := &Calls{}
	calls := reflect.ValueOf(out).Elem()
	for field, call := range calls.Fields() {
		call.Set(reflect.ValueOf(does).MethodByName(field.Name))
	}
	return out
}

// another marks a context of who is not the owner of the installation.
type another struct{}

// ForAnother marks what is asked by who may control builds and does not own the installation: a corpus that is a
// directory must be allowed already (stores.corpus_roots, or granted by the owner).
func ForAnother(ctx context.Context) context.Context { return context.WithValue(ctx, another{}, true) }

// OfAnother reports whether a context is marked so.
func OfAnother(ctx context.Context) bool { return ctx.Value(another{}) != nil }

type operator struct{}

// WithOperator says who asks, and why: operations record it.
func WithOperator(ctx context.Context, asks core.Operator) context.Context {
	asks.By, asks.Reason = JoinLines(asks.By), JoinLines(asks.Reason)
	return context.WithValue(ctx, operator{}, asks)
}

// JoinLines returns what a person wrote as one line: lists print it in one.
func JoinLines(text string) string { return strings.Join(strings.Fields(text), " ") }

// OperatorOf returns who asks; zero: unknown.
func OperatorOf(ctx context.Context) core.Operator {
	asks, _ := ctx.Value(operator{}).(core.Operator)
	return asks
}

// PurgeRequest names documents that have to leave an index with everything that was made from them.
type PurgeRequest struct {
	Index     string   `json:"index"`
	Documents []string `json:"documents"`
	Return    bool     `json:"return,omitempty"`    // once they are gone, the corpus may bring them back
	DryRun    bool     `json:"dry_run,omitempty"`   // tell what would be done, and do nothing
	Confirmed bool     `json:"confirmed,omitempty"` // without it nothing is done: it cannot be undone

	// Gate judges the generation that takes the place of the current one; nil: that of the current one does.
	Gate *core.Gate `json:"gate,omitempty"`
	core.Files
}

// PurgeAnswer is what was begun.
type PurgeAnswer struct {
	Plan  core.PurgePlan `json:"plan"`
	Purge *core.Purge    `json:"purge,omitempty"` // nil: a dry run
	Run   *Run           `json:"run,omitempty"`   // that does it; nil: there is nothing to do
}

// PurgesRequest asks how the purges of an index stand.
type PurgesRequest struct {
	Index   string   `json:"index"`
	Readmit []string `json:"readmit,omitempty"` // documents that the corpus may bring back though they were purged
}

// PurgesAnswer says how they stand.
type PurgesAnswer struct {
	Purges   []core.Purge `json:"purges"`
	Readmits int          `json:"readmits,omitempty"` // purges that hold nothing back any more
}

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
