package chat

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/query-api/inproc"
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

// Models answers GET /v1/models: the indexes that the caller may ask.
func (s Service) Models(w http.ResponseWriter, request *http.Request) {
	models, err := s.models(request.Context())
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, Models{Object: "list", Data: models})
}

// Model answers GET /v1/models/{model}.
func (s Service) Model(w http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, "/v1/models/")
	models, err := s.models(request.Context())
	if err != nil {
		fail(w, err)
		return
	}
	for _, known := range models {
		if known.ID == name {
			writeJSON(w, http.StatusOK, known)
			return
		}
	}
	fail(w, noModel(name))
}

func (s Service) models(ctx context.Context) ([]Model, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/indexes", http.NoBody)
	if err != nil {
		return nil, err
	}
	body, err := inproc.Ask(s.Routes, request)
	if err != nil {
		return nil, err
	}
	type index struct {
		Index   string    `json:"index"`
		Created time.Time `json:"created"`
	}
	var list struct {
		Indexes []index `json:"indexes"`
		Items   []index `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	models := []Model{}
	for _, known := range append(list.Indexes, list.Items...) {
		model := Model{ID: Prefix + known.Index, Object: "model", OwnedBy: "unweaver"}
		if !known.Created.IsZero() { // that of one that is damaged is not known
			model.Created = known.Created.Unix()
		}
		models = append(models, model)
	}
	return models, nil
}
