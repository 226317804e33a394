package api

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// WatchedQuestions is a page of the standing questions of an index.
type WatchedQuestions struct {
	Index      string          `json:"index"`
	Items      []core.Question `json:"items"`
	NextCursor string          `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// WatchRequest adds standing questions.
type WatchRequest struct {
	Questions []WatchQuestion `json:"questions" required:"true" doc:"up to 10,000 an index"`
}

// WatchQuestion is a standing question of a request.
type WatchQuestion struct {
	Question string   `json:"question" length:"1,1000" pattern:"\\S" required:"true"`
	Labels   []string `json:"labels" doc:"labels of the reader who asks, besides public documents; * for every document"`
	Notify   string   `json:"notify" doc:"name of a webhook of notify.named; default: the index's webhook"`
}

// watchedRoutes are those of standing questions.
func (s *Server) watchedRoutes() []route {
	const pattern = "/v1/indexes/{index}/watched"
	return asControl([]route{
		{
			Method: "GET", Pattern: pattern, ID: "listWatched", Summary: "List standing questions",
			Doc: "Questions whose passages every night compares.", Query: []parameter{paged, howMany},
			Answer: WatchedQuestions{}, Handler: s.operate(controlTimeout, withControl(operation.listWatched)),
		},
		{
			Method: "POST", Pattern: pattern, ID: "addWatched", Summary: "Add standing questions",
			Doc: "All of them or none. A question of the same text and labels is replaced. An index has at most 10,000. The " +
				"report of each run that publishes lists those whose passages changed.",
			Body: WatchRequest{}, Answer: control.Watching{},
			Handler: s.operate(controlTimeout, withControl(operation.addWatched)),
		},
		{
			Method: "DELETE", Pattern: pattern + "/{id}", ID: "removeWatched", Summary: "Remove a standing question",
			Doc: "By its id. `unweaver watch remove all` removes every one, also where they cannot be read.", Done: nothing,
			Handler: s.operate(controlTimeout, withControl(operation.removeWatched)),
		},
	})
}

// listWatched answers GET …/watched.
func (o operation) listWatched(controller control.Control) (reply, error) {
	all, err := controller.ListWatched(o.ctx, o.index)
	if err != nil {
		return reply{}, err
	}
	out := WatchedQuestions{Index: o.index}
	out.Items, out.NextCursor, err = namedPage(o.Request, all, func(one core.Question) string { return one.ID })
	return reply{status: http.StatusOK, body: out}, err
}

// addWatched answers POST …/watched.
func (o operation) addWatched(controller control.Control) (reply, error) {
	var body WatchRequest
	if err := o.read(&body); err != nil {
		return reply{}, err
	}
	request := control.WatchRequest{Index: o.index}
	mayRead := middleware.CallerOf(o.ctx).Readers().Filter()
	for _, one := range body.Questions {
		for _, label := range one.Labels { // reports quote what such a reader may read
			if set, _ := core.NewLabelSet([]string{label}); !mayRead(set) { // what is no label is of no reader
				return reply{}, fault.Forbidden.At("watch question", one.Question).
					Because("it has the label " + fault.QuoteName(label) + ", which the API key or the person does not have").
					Advise("leave the label out, or use a key with it: unweaver keys create --labels LABEL,LABEL")
			}
		}
		request.Add = append(request.Add, core.Question{
			Question: one.Question, Labels: one.Labels, Notify: one.Notify,
		})
	}
	if len(request.Add) == 0 {
		return reply{}, newFault("read body", "questions", "there is none", `send {"questions": [{"question": "…"}]}`)
	}
	out, err := controller.ChangeWatched(o.ctx, request)
	return reply{status: http.StatusOK, body: out}, err
}

// removeWatched answers DELETE …/watched/{id}.
func (o operation) removeWatched(controller control.Control) (reply, error) {
	id := o.PathValue("id")
	if parsed, err := core.ParseID(id); err != nil || parsed.String() != id {
		return reply{}, newFault("remove standing question", "id", "it is no id", "list the questions: GET …/watched")
	}
	_, err := controller.ChangeWatched(o.ctx, control.WatchRequest{Index: o.index, Remove: id})
	return reply{status: http.StatusNoContent}, err
}
