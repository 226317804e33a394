package chat

import (
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/query-api/problem"
)

// Models is the list of models.
type Models struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Model is an index, as a model.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created" doc:"when its generation was made, in seconds since 1970; 0: not known"`
	OwnedBy string `json:"owned_by"`
}

// ServeModels answers GET /v1/models: the indexes that the caller may ask.
func (s Service) ServeModels(w http.ResponseWriter, request *http.Request) {
	models, err := s.Indexes(request.Context())
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	problem.WriteJSON(w, http.StatusOK, Models{Object: "list", Data: models})
}

// ServeModel answers GET /v1/models/{model}.
func (s Service) ServeModel(w http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, "/v1/models/")
	models, err := s.Indexes(request.Context())
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	for _, known := range models {
		if known.ID == name {
			problem.WriteJSON(w, http.StatusOK, known)
			return
		}
	}
	s.writeError(w, request, noModel(name))
}
