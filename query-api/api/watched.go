package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// WatchedQuestions are standing questions of an index.
type WatchedQuestions struct {
	Index      string          `json:"index"`
	Items      []core.Question `json:"items"`
	NextCursor string          `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// WatchRequest adds standing questions.
type WatchRequest struct {
	Questions []core.Question `json:"questions" required:"true" doc:"up to 10,000 an index; their ids follow from them"`
}

// watchedRoutes are those of standing questions.
func (s *Server) watchedRoutes() []route {
	const pattern = "/v1/indexes/{index}/watched"
	return asControl([]route{
		{
			Method: "GET", Pattern: pattern, ID: "listWatched", Summary: "List standing questions",
			Doc:   "Questions whose passages every night compares, as far as the caller holds their labels.",
			Query: []parameter{paged, howMany}, Answer: WatchedQuestions{},
			Shows: showsHeld, Handler: s.operate(controlTimeout, withControl(operation.listWatched)),
		},
		{
			Method: "POST", Pattern: pattern, ID: "addWatched", Summary: "Add standing questions",
			Doc: "All of them or none. A question of the same text and labels is replaced. An index has at most 10,000. The " +
				"report of each run that publishes lists those whose passages changed.",
			Body: WatchRequest{}, Answer: WatchedQuestions{},
			Shows: showsHeld, Handler: s.operate(controlTimeout, withControl(operation.addWatched)),
		},
		{
			Method: "DELETE", Pattern: pattern + "/{id}", ID: "removeWatched", Summary: "Remove a standing question",
			Doc: "By its id. `all` removes every one with labels that the caller holds; for a key of every document also " +
				"where they cannot be read.", Done: nothing,
			Shows: showsHeld, Handler: s.operate(controlTimeout, withControl(operation.removeWatched)),
		},
	})
}

// watch asks for standing questions in the name of the caller.
func (o operation) watch(controller control.Control, request control.WatchRequest) (out WatchedQuestions, err error) {
	request.Index, request.Readers = o.index, middleware.CallerOf(o.ctx).Readers()
	out.Index = o.index
	out.Items, err = controller.WatchQuestions(o.ctx, request)
	return out, err
}

// listWatched answers GET …/watched.
func (o operation) listWatched(controller control.Control) (reply, error) {
	out, err := o.watch(controller, control.WatchRequest{})
	if err != nil {
		return reply{}, err
	}
	out.Items, out.NextCursor, err = namedPage(o.Request, out.Items, func(one core.Question) string { return one.ID })
	return reply{status: http.StatusOK, body: out}, err
}

// addWatched answers POST …/watched.
func (o operation) addWatched(controller control.Control) (reply, error) {
	var body WatchRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	if len(body.Questions) == 0 {
		return reply{}, newFault("read body", "questions", "there is none", `send {"questions": [{"question": "…"}]}`)
	}
	out, err := o.watch(controller, control.WatchRequest{Add: body.Questions})
	return reply{status: http.StatusOK, body: out}, err
}

// removeWatched answers DELETE …/watched/{id}.
func (o operation) removeWatched(controller control.Control) (reply, error) {
	id := o.PathValue("id")
	if parsed, err := core.ParseID(id); id != control.AllWatched && (err != nil || parsed.String() != id) {
		return reply{}, newFault("remove standing question", "id", "it is no id", "list the questions: GET …/watched")
	}
	_, err := o.watch(controller, control.WatchRequest{Remove: id})
	return reply{status: http.StatusNoContent}, err
}
