package api

import (
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/problem"
)

// controlTimeout bounds what steers: a pause waits until its worker obeys.
const controlTimeout = 2 * time.Minute

// reply is the answer of an operation: its status, what it says, and the address of what it began.
type reply struct {
	status   int
	body     any // nil: nothing
	location string
}

// operation is one request to build, steer or upload.
type operation struct {
	*http.Request
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // of the request, with who asks
	desk  *desk.Desk
	index string
}

// operate returns the handler of an operation. within bounds it; 0: the request alone does.
func (s *Server) operate(within time.Duration, do func(operation) (reply, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		ctx := asOperator(request.Context())
		if within > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, within)
			defer cancel()
		}
		asked := operation{request, w, ctx, s.Desk, request.PathValue("index")}
		var out reply
		var err error = errNoControl
		if asked.desk != nil {
			out, err = do(asked)
		}
		if err != nil {
			s.writeError(w, request, asConflict(err))
			return
		}
		if out.location != "" {
			w.Header().Set("Location", out.location)
		}
		if out.body == nil {
			w.WriteHeader(out.status)
			return
		}
		problem.WriteJSON(w, out.status, out.body)
	}
}

// asOperator notes who asks, for the audit trail. Who is not the owner names no corpus that is not allowed already.
func asOperator(ctx context.Context) context.Context {
	caller := middleware.CallerOf(ctx)
	via := caller.ID()
	if via != middleware.TokenID {
		via = "key " + via
	}
	operator := core.Operator{By: "HTTP API", Via: via}
	if subject := caller.Subject(); subject != "" {
		operator = core.Operator{By: subject, Via: "sign-on"}
	}
	ctx = control.WithOperator(ctx, operator)
	if !caller.Includes(access.Admin) {
		ctx = control.ForAnother(ctx)
	}
	return ctx
}

// errNoControl refuses an operation of a server without control.
var errNoControl = fault.NoControl.At("use this address", "").
	Because("this server was not given control of builds").
	Advise("set query_api.control: true and engine in the configuration of query-api; unweaver dev has it")

// read reads the JSON object of the body; one that may be left out stays zero then.
func (o operation) read(to any) error {
	if o.ContentLength == 0 {
		return nil
	}
	raw, err := readAll(o.w, o.Request)
	if err == nil && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		err = newFault("read body", "", "want an object, got null", "send {} for the defaults")
	}
	if err != nil {
		return err
	}
	return readBody(raw, to)
}

// withControl connects an operation that steers by itself.
func withControl(do func(operation, control.Control) (reply, error)) func(operation) (reply, error) {
	return func(o operation) (reply, error) {
		controller, err := o.desk.Connect(o.ctx)
		if err != nil {
			return reply{}, err
		}
		return do(o, controller)
	}
}

// longestNote bounds what an operator says for the audit trail, in characters.
const longestNote = 500

// noteOf returns what an operator says in a field of the body.
func noteOf(field string, text *string) (string, error) {
	if text == nil {
		return "", nil
	}
	if utf8.RuneCountInString(*text) > longestNote {
		return "", newFault("read body", field, "it is longer than 500 characters", "")
	}
	return *text, nil
}

// asConflict returns the error of a command. What cannot be done as things stand is a conflict, though a command line
// calls it wrong usage; a body that is no JSON stays one.
func asConflict(err error) error {
	if fault.Is(err, fault.Usage) && fault.As(err).Op != "read body" {
		return &desk.Conflict{Err: err}
	}
	return err
}

// nameOf returns a name of the address, which must have the form of one.
func (o operation) nameOf(what string) (string, error) {
	name := o.PathValue(what)
	if !core.ValidSlug(name) {
		return "", newFault("read request", what, "letters a-z, digits and hyphens, at most 63, no hyphen first", "")
	}
	return name, nil
}

// RunRequest starts a build, or estimates one.
type RunRequest struct {
	Generation *string `json:"generation" pattern:"^[a-z0-9][a-z0-9-]{0,62}$" doc:"its name; default: the start time"`
	Rebuild    bool    `json:"rebuild" doc:"rebuild everything from paid results; reuse no part of the parent"`

	ReplaceCorpus bool `json:"replace_corpus" doc:"allow a corpus other than that of the published generation"`
}

// EstimateRequest estimates a build.
type EstimateRequest struct {
	Rebuild       bool `json:"rebuild" doc:"of a build that reuses no part of the parent"`
	ReplaceCorpus bool `json:"replace_corpus" doc:"allow a corpus other than that of the published generation"`
}

// RunStarted names a run that was started or joined.
type RunStarted struct {
	Index      string     `json:"index"`
	Generation string     `json:"generation" doc:"name of the run, and of the generation that it makes"`
	Attached   bool       `json:"attached" doc:"it was running already, or an earlier request of the same key started it"`
	Begun      *time.Time `json:"begun,omitempty" doc:"of a joined run: it may miss later changes of the corpus"`
}

// RunSteered is what a command to a run came to.
type RunSteered struct {
	Index      string `json:"index"`
	Generation string `json:"generation" doc:"name of the run, and of the generation that it makes"`

	Command  string `json:"command" enum:"pause,resume,cancel" doc:"what was asked for"`
	InFlight *int64 `json:"in_flight" doc:"model calls that were not answered yet: they are paid and kept; null: unknown"`
}

// ResumeRequest resumes a run.
type ResumeRequest struct {
	Budget *RunBudget `json:"budget" doc:"from the start of the run; null, and limits that are absent or 0: as they are"`
}

// RunBudget is a budget in a request: a limit that is left out, or 0, stays as it is.
type RunBudget core.Budget

// replyStarted answers with a run that was started or joined.
func replyStarted(run control.Run) reply {
	index, generation, _ := strings.Cut(run.Run, "/")
	return reply{
		status:   http.StatusAccepted,
		body:     RunStarted{Index: index, Generation: generation, Attached: run.Attached, Begun: run.Begun},
		location: "/v1/indexes/" + index + "/runs/" + generation,
	}
}

// onceForm is the form of an Idempotency-Key.
const onceForm = `^[!-~]{1,128}$`

var oncePattern = regexp.MustCompile(onceForm)

// startRun answers POST …/runs.
func (o operation) startRun() (reply, error) {
	var body RunRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	options := control.IndexRequest{Rebuild: body.Rebuild, ReplaceCorpus: body.ReplaceCorpus}
	if body.Generation != nil {
		options.Generation = *body.Generation
		if !core.ValidSlug(options.Generation) {
			return reply{}, newFault("read body", "generation",
				"letters a-z, digits and hyphens, at most 63, no hyphen first", "")
		}
	}
	if keys := o.Header.Values("Idempotency-Key"); len(keys) > 0 {
		options.Once = middleware.CallerOf(o.ctx).ID() + " " + keys[0] // of each caller its own
		switch {
		case len(keys) > 1 || !oncePattern.MatchString(keys[0]):
			return reply{}, newFault("read request", "Idempotency-Key", "want 1 to 128 visible characters, once", "")
		case options.Generation != "":
			return reply{}, newFault("read request", "Idempotency-Key", "the generation is named already",
				"send one of them: a name is used once too")
		}
	}
	run, err := o.desk.StartBuild(o.ctx, o.index, options)
	if err != nil {
		return reply{}, err
	}
	return replyStarted(run), nil
}

// estimateRun answers POST …/estimate.
func (o operation) estimateRun() (reply, error) {
	var body EstimateRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	out, err := o.desk.EstimateBuild(o.ctx, o.index, control.IndexRequest{
		Rebuild: body.Rebuild, ReplaceCorpus: body.ReplaceCorpus,
	})
	if out.Stages == nil {
		out.Stages = []core.StageProgress{}
	}
	return reply{status: http.StatusOK, body: out}, err
}

// steerRun returns what answers POST …/runs/{run}/{command}.
func steerRun(command string) func(operation, control.Control) (reply, error) {
	return func(o operation, controller control.Control) (reply, error) {
		var stopped control.Stopped
		index, run, err := runOf(o.Request)
		if err != nil {
			return reply{}, err
		}
		switch name := index + "/" + run; command {
		case core.ActionPause:
			stopped, err = controller.PauseRun(o.ctx, name)
		case core.ActionCancel:
			stopped, err = controller.CancelRun(o.ctx, name)
		case core.ActionResume:
			var body ResumeRequest
			if err = o.read(&body); err == nil {
				err = checkBudget(body.Budget)
			}
			if err != nil {
				return reply{}, err
			}
			err = controller.ResumeRun(o.ctx, name, (*core.Budget)(body.Budget))
		}
		return reply{status: http.StatusOK, body: RunSteered{index, run, command, stopped.InFlight}}, err
	}
}

// checkBudget refuses a budget that nothing can be paid from.
func checkBudget(budget *RunBudget) error {
	if budget != nil && (budget.Calls < 0 || budget.Tokens < 0 || budget.Money < 0) {
		return newFault("read body", "budget", "it is negative", "leave out a limit that is to stay as it is")
	}
	return nil
}

// DeadLetters is a page of the dead letters of the published generation.
type DeadLetters struct {
	Index      string        `json:"index"`
	Items      []core.Letter `json:"items"`
	NextCursor string        `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// RetryRequest retries dead letters.
type RetryRequest struct {
	Chunks []string `json:"chunks" items:"^[0-9a-f]{32}$" doc:"their passages; none: all that are not discarded"`
}

// DiscardRequest discards dead letters.
type DiscardRequest struct {
	Chunks []string `json:"chunks" items:"^[0-9a-f]{32}$" doc:"their passages"`
	Why    *string  `json:"why" length:"0,500" doc:"the reason, kept with the letters"`
}

// discardLetters answers POST …/dead-letters/discard.
func (o operation) discardLetters(controller control.Control) (reply, error) {
	var body DiscardRequest
	err := o.read(&body)
	if err == nil && len(body.Chunks) == 0 {
		err = newFault("read body", "chunks", "no passage is named", "list them with GET …/dead-letters")
	}
	if err == nil {
		err = checkChunks(body.Chunks)
	}
	request := control.LettersRequest{Name: o.index, Chunks: body.Chunks}
	if err == nil {
		request.Why, err = noteOf("why", body.Why)
	}
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusNoContent}, controller.DiscardLetters(o.ctx, request)
}

// checkChunks refuses what is no id of a passage.
func checkChunks(chunks []string) error {
	for _, chunk := range chunks {
		if _, err := core.ParseID(chunk); err != nil {
			return newFault("read body", "chunks", fault.QuoteName(chunk)+" is no id of a passage", "")
		}
	}
	return nil
}

// listLetters answers GET …/dead-letters.
func (o operation) listLetters(controller control.Control) (reply, error) {
	all, err := controller.DeadLetters(o.ctx, o.index)
	if err != nil {
		return reply{}, err
	}
	out := DeadLetters{Index: o.index}
	out.Items, out.NextCursor, err = namedPage(o.Request, all, func(letter core.Letter) string { return letter.Chunk })
	return reply{status: http.StatusOK, body: out}, err
}

// retryLetters answers POST …/dead-letters/retry.
func (o operation) retryLetters() (reply, error) {
	var body RetryRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	if err := checkChunks(body.Chunks); err != nil {
		return reply{}, err
	}
	run, err := o.desk.RetryFailed(o.ctx, o.index, body.Chunks)
	if err != nil {
		return reply{}, err
	}
	if run.Run == "" {
		return reply{status: http.StatusNoContent}, nil
	}
	return replyStarted(run), nil
}
