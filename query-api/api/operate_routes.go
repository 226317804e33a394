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
		routes[i].control, routes[i].scope = true, access.Operate
		routes[i].shows = cmp.Or(routes[i].shows, showsRuns)
		routes[i].optional = routes[i].body != nil
		if routes[i].tag == "" {
			routes[i].tag = tagControl
		}
	}
	return routes
}

// steerRoutes are those that start and steer runs.
func (s *Server) steerRoutes() []route {
	out := []route{
		{
			method: "POST", pattern: "/v1/indexes/{index}/runs", id: "startRun", summary: "Build an index",
			doc: "Starts a build with the configuration of the server, or with that of the published generation if the " +
				"server's names no corpus. A build that runs with the same configuration is joined (`attached`); with " +
				"another configuration the response is a 409 that names it in `run`.",
			headers: []parameter{{
				"Idempotency-Key", map[string]any{"type": "string", "pattern": onceForm},
				"a name for this request: sent again with the same key and body, it returns the run that it started. A " +
					"request that joined a run of another one started none",
				"deploy-4711",
			}},
			body: RunRequest{}, answer: RunStarted{}, done: accepted, handler: s.operate(controlTimeout, operation.startRun),
		},
		{
			method: "POST", pattern: "/v1/indexes/{index}/estimate", id: "estimateRun", summary: "Estimate a build",
			doc: "Returns the report of a dry run: documents, calls, tokens, cost. It takes nothing and calls no model. It " +
				"reads the list of the corpus, which can take minutes.",
			body: EstimateRequest{}, answer: core.Report{}, handler: s.operate(0, operation.estimateRun),
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/dead-letters", id: "listDeadLetters", summary: "List dead letters",
			doc:   "Passages of the published generation whose extraction failed.",
			query: []parameter{paged, howMany}, answer: DeadLetters{},
			handler: s.operate(controlTimeout, withControl(operation.listLetters)),
		},
		{
			method: "POST", pattern: "/v1/indexes/{index}/dead-letters/retry", id: "retryDeadLetters",
			summary: "Retry dead letters",
			doc: "Starts a run that asks the model again for the documents of these passages, and changes nothing else. " +
				"204: nothing failed.",
			body: RetryRequest{}, answer: RunStarted{}, done: maybeNone,
			handler: s.operate(controlTimeout, operation.retryLetters),
		},
		{
			method: "POST", pattern: "/v1/indexes/{index}/dead-letters/discard", id: "discardDeadLetters",
			summary: "Discard dead letters",
			doc: "A retry of all dead letters leaves these passages out. Queries still find them by title and words, and " +
				"reports still count them.",
			body: DiscardRequest{}, done: nothing,
			handler: s.operate(controlTimeout, withControl(operation.discardLetters)),
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
			method: "POST", pattern: "/v1/indexes/{index}/runs/{run...}",
			path: "/v1/indexes/{index}/runs/{run}/" + one.command, id: one.command + "Run",
			summary: one.summary, doc: one.doc, body: one.body, answer: RunSteered{},
			handler: s.operate(controlTimeout, withControl(steerRun(one.command))),
		})
	}
	return asControl(out)
}

// scheduleRoutes are those of schedules.
func (s *Server) scheduleRoutes() []route {
	const pattern = "/v1/indexes/{index}/schedule"
	return asControl([]route{
		{
			method: "GET", pattern: pattern, id: "getSchedule", summary: "Get the schedule of an index",
			doc: "With its next and its last runs.", answer: control.Scheduled{},
			handler: s.operate(controlTimeout, withControl(operation.readSchedule)),
		},
		{
			method: "PUT", pattern: pattern, id: "putSchedule", summary: "Create or change the schedule of an index",
			doc: "Runs use the configuration of this moment, as startRun finds it. Fields that are absent are as " +
				"`indexes.*.schedule` says; a paused schedule stays paused unless `paused` says otherwise. A body of `paused` " +
				"and `note` alone only pauses or resumes it.",
			body: ScheduleRequest{}, answer: control.Scheduled{},
			handler: s.operate(controlTimeout, operation.applySchedule),
		},
		{
			method: "DELETE", pattern: pattern, id: "deleteSchedule", summary: "Delete the schedule of an index",
			doc: "A running run continues.", done: nothing,
			handler: s.operate(controlTimeout, withControl(operation.deleteSchedule)),
		},
		{
			method: "POST", pattern: pattern + "/trigger", id: "triggerSchedule", summary: "Start a scheduled run now",
			doc:    "Also of a paused schedule. While a build runs nothing starts, and `running` names it.",
			answer: control.Triggered{}, done: accepted,
			handler: s.operate(controlTimeout, withControl(operation.triggerSchedule)),
		},
	})
}

// releaseRoutes are those that change what is served and kept.
func (s *Server) releaseRoutes() []route {
	const pattern = "/v1/indexes/{index}/generations/{generation}"
	return asControl([]route{
		{
			method: "POST", pattern: pattern + "/publish", id: "publishGeneration", summary: "Serve a generation",
			doc: "Approves a generation that a gate held, or rolls back to one that was published before. Nothing is built " +
				"or paid for.",
			body: PublishRequest{}, answer: core.Move{},
			handler: s.operate(controlTimeout, withControl(operation.publishGeneration)),
		},
		{
			method: "POST", pattern: pattern + "/discard", id: "discardGeneration", summary: "Discard a held generation",
			doc: "Later runs delete its files. Paid results are kept.", answer: core.Move{},
			handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionDiscard))),
		},
		{
			method: "PUT", pattern: pattern + "/tags/{tag}", id: "tagGeneration", summary: "Tag a generation",
			doc:    "It is kept until its last tag is removed. A tag belongs to one generation.",
			answer: core.Move{}, handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionTag))),
		},
		{
			method: "POST", pattern: "/v1/indexes/{index}/branches/{branch}/promote", id: "promoteBranch",
			summary: "Serve what a branch serves",
			doc: "The index then serves the generation of its branch, and its next runs have the settings in `set`. The key " +
				"must cover both. Nothing is built or paid for. To undo it, publish the generation in `from`.",
			answer: core.Move{}, handler: s.operate(controlTimeout, withControl(operation.promoteBranch)),
		},
		{
			method: "DELETE", pattern: pattern + "/tags/{tag}", id: "untagGeneration", summary: "Remove a tag",
			doc: "`indexes.*.keep` applies again.", answer: core.Move{},
			handler: s.operate(controlTimeout, withControl(changeGeneration(core.ActionUntag))),
		},
	})
}

// uploadRoutes are those that change the corpus of an index.
func (s *Server) uploadRoutes() []route {
	const pattern, path = "/v1/indexes/{index}/documents/{rest...}", "/v1/indexes/{index}/documents/{key}"
	return asControl([]route{
		{
			method: "PUT", pattern: pattern, path: path, id: "putDocument", tag: tagDocuments,
			summary: "Upload a document",
			doc: "Writes the body into the folder or bucket of the index, whole or not at all. The next build indexes it. A " +
				"key that builds leave out, such as a hidden one, and an empty body are a 422; a key that ends in /text is a " +
				"405.",
			query: []parameter{{
				"build", map[string]any{"type": "boolean", "default": false}, "start a build, as startRun does", nil,
			}},
			bytes: true, answer: DocumentStored{}, done: written, handler: s.operate(0, operation.putDocument),
		},
		{
			method: "DELETE", pattern: pattern, path: path, id: "deleteDocument", tag: tagDocuments,
			summary: "Delete a document from the corpus",
			doc: "The next build removes it from the index; kept generations and paid results still have it. To erase it: " +
				"`unweaver purge`. Its `.meta.json` stays: delete that too, or a new document of the key has its metadata.",
			done: nothing, handler: s.operate(controlTimeout, operation.deleteDocument),
		},
	})
}
