package api

import (
	"cmp"
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// Statuses where an operation is done.
var (
	accepted  = []int{http.StatusAccepted}
	nothing   = []int{http.StatusNoContent}
	maybeNone = []int{http.StatusAccepted, http.StatusNoContent}
	written   = []int{http.StatusCreated, http.StatusOK}
)

// asControl has routes need control, with a key of scope operate.
func asControl(routes []route) []route {
	for i := range routes {
		routes[i].Control, routes[i].Scope = true, access.Operate
		routes[i].Shows = cmp.Or(routes[i].Shows, showsRuns)
		if routes[i].Tag == "" {
			routes[i].Tag = tagControl
		}
	}
	return routes
}

// steerRoutes are those that start and steer runs.
func (s *Server) steerRoutes() []route {
	out := []route{
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/runs", ID: "startRun", Summary: "Build an index",
			Doc: "Starts a build with the configuration of the server, or with that of the published generation if the " +
				"server's names no corpus. A build that runs with the same configuration is joined (`attached`); with " +
				"another configuration the response is a 409 that names it in `run`.",
			Headers: []parameter{{
				Name: "Idempotency-Key", Schema: map[string]any{"type": "string", "pattern": onceForm},
				Doc: "a name for this request: sent again with the same key and body, it returns the run that it started. A " +
					"request that joined a run of another one started none",
				Example: "deploy-4711",
			}},
			Body: RunRequest{}, Answer: RunStarted{}, Done: accepted, Handler: s.operate(controlTimeout, operation.startRun),
		},
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/estimate", ID: "estimateRun", Summary: "Estimate a build",
			Doc: "Returns the report of a dry run: documents, calls, tokens, cost. It takes nothing and calls no model. It " +
				"reads the list of the corpus, which can take minutes.",
			Body: EstimateRequest{}, Answer: core.Report{}, Handler: s.operate(0, operation.estimateRun),
		},
		{
			Method: "GET", Pattern: "/v1/indexes/{index}/dead-letters", ID: "listDeadLetters", Summary: "List dead letters",
			Doc:   "Passages of the published generation whose extraction failed.",
			Query: []parameter{paged, howMany}, Answer: DeadLetters{},
			Handler: s.operate(controlTimeout, withControl(operation.listLetters)),
		},
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/dead-letters/retry", ID: "retryDeadLetters",
			Summary: "Retry dead letters",
			Doc: "Starts a run that asks the model again for the documents of these passages, and changes nothing else. " +
				"204: nothing failed.",
			Body: RetryRequest{}, Answer: RunStarted{}, Done: maybeNone,
			Handler: s.operate(controlTimeout, operation.retryLetters),
		},
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/dead-letters/discard", ID: "discardDeadLetters",
			Summary: "Discard dead letters",
			Doc: "A retry of all dead letters leaves these passages out. Queries still find them by title and words, and " +
				"reports still count them.",
			Body: DiscardRequest{}, Done: nothing,
			Handler: s.operate(controlTimeout, withControl(operation.discardLetters)),
		},
	}
	for _, one := range []struct {
		command, summary, doc string
		body                  any
	}{
		{core.ActionPause, "Pause a run", "Returns when no paid call can start any more.", nil},
		{core.ActionResume, "Resume a run", "A run whose budget is spent needs a larger one.", ResumeRequest{}},
		{core.ActionCancel, "Cancel a run", "Returns when no paid call can start any more. Paid results are kept.", nil},
	} {
		out = append(out, route{
			Method: "POST", Pattern: "/v1/indexes/{index}/runs/{run...}",
			Path: "/v1/indexes/{index}/runs/{run}/" + one.command, ID: one.command + "Run",
			Summary: one.summary, Doc: one.doc, Body: one.body, Answer: RunSteered{},
			Handler: s.operate(controlTimeout, withControl(steerRun(one.command))),
		})
	}
	return asControl(out)
}

// scheduleRoutes are those of schedules.
func (s *Server) scheduleRoutes() []route {
	const pattern = "/v1/indexes/{index}/schedule"
	return asControl([]route{
		{
			Method: "GET", Pattern: pattern, ID: "getSchedule", Summary: "Get the schedule of an index",
			Doc: "With its next and its last runs.", Answer: control.Scheduled{},
			Handler: s.operate(controlTimeout, withControl(operation.readSchedule)),
		},
		{
			Method: "PUT", Pattern: pattern, ID: "putSchedule", Summary: "Create or change the schedule of an index",
			Doc: "Runs use the configuration of this moment, as startRun finds it. Fields that are absent are as " +
				"`indexes.*.schedule` says; a paused schedule stays paused unless `paused` says otherwise. A body of `paused` " +
				"and `note` alone only pauses or resumes it.",
			Body: ScheduleRequest{}, Answer: control.Scheduled{},
			Handler: s.operate(controlTimeout, operation.applySchedule),
		},
		{
			Method: "DELETE", Pattern: pattern, ID: "deleteSchedule", Summary: "Delete the schedule of an index",
			Doc: "A running run continues.", Done: nothing,
			Handler: s.operate(controlTimeout, withControl(operation.deleteSchedule)),
		},
		{
			Method: "POST", Pattern: pattern + "/trigger", ID: "triggerSchedule", Summary: "Start a scheduled run now",
			Doc:    "Also of a paused schedule. While a build runs nothing starts, and `running` names it.",
			Answer: control.Triggered{}, Done: accepted,
			Handler: s.operate(controlTimeout, withControl(operation.triggerSchedule)),
		},
	})
}

// releaseRoutes are those that change what is served and kept.
func (s *Server) releaseRoutes() []route {
	const pattern = "/v1/indexes/{index}/generations/{generation}"
	return asControl([]route{
		{
			Method: "POST", Pattern: pattern + "/publish", ID: "publishGeneration", Summary: "Serve a generation",
			Doc: "Approves a generation that a gate held, or rolls back to one that was published before. Nothing is built " +
				"or paid for.",
			Body: PublishRequest{}, Answer: core.Move{},
			Handler: s.operate(controlTimeout, withControl(operation.publishGeneration)),
		},
		{
			Method: "POST", Pattern: pattern + "/discard", ID: "discardGeneration", Summary: "Discard a held generation",
			Doc: "Later runs delete its files. Paid results are kept.", Answer: core.Move{},
			Handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionDiscard))),
		},
		{
			Method: "PUT", Pattern: pattern + "/tags/{tag}", ID: "tagGeneration", Summary: "Tag a generation",
			Doc:    "It is kept until its last tag is removed. A tag belongs to one generation.",
			Answer: core.Move{}, Handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionTag))),
		},
		{
			Method: "POST", Pattern: "/v1/indexes/{index}/branches/{branch}/promote", ID: "promoteBranch",
			Summary: "Serve what a branch serves",
			Doc: "The index then serves the generation of its branch, and its next runs have the settings in `set`. The key " +
				"must cover both. Nothing is built or paid for. To undo it, publish the generation in `from`.",
			Answer: core.Move{}, Handler: s.operate(controlTimeout, withControl(operation.promoteBranch)),
		},
		{
			Method: "DELETE", Pattern: pattern + "/tags/{tag}", ID: "untagGeneration", Summary: "Remove a tag",
			Doc: "`indexes.*.keep` applies again.", Answer: core.Move{},
			Handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionUntag))),
		},
	})
}

// uploadRoutes are those that change the corpus of an index.
func (s *Server) uploadRoutes() []route {
	const pattern, path = "/v1/indexes/{index}/documents/{rest...}", "/v1/indexes/{index}/documents/{key}"
	return asControl([]route{
		{
			Method: "PUT", Pattern: pattern, Path: path, ID: "putDocument", Tag: tagDocuments,
			Summary: "Upload a document",
			Doc: "Writes the body into the folder or bucket of the index, whole or not at all. The next build indexes it. A " +
				"key that builds leave out, such as a hidden one, and an empty body are a 422; a key that ends in /text is a " +
				"405.",
			Bytes: true, Answer: DocumentStored{}, Done: written, Handler: s.operate(0, operation.putDocument),
		},
		{
			Method: "DELETE", Pattern: pattern, Path: path, ID: "deleteDocument", Tag: tagDocuments,
			Summary: "Delete a document from the corpus",
			Doc: "The next build removes it from the index; kept generations and paid results still have it. To erase it: " +
				"`unweaver purge`. Its `.meta.json` stays: delete that too, or a new document of the key has its metadata.",
			Done: nothing, Handler: s.operate(controlTimeout, operation.deleteDocument),
		},
	})
}
