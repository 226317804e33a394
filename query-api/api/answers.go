package api

import (
	"context"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr/answers"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// Namespaces are those of a caller, and those that all callers of the index share.
type Namespaces struct {
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace of kept answers.
type Namespace struct {
	Namespace string    `json:"namespace"`
	Shared    bool      `json:"shared"`
	Bytes     int64     `json:"bytes"`
	Written   time.Time `json:"written"`
}

// KeptAnswers are those of a namespace, the oldest first.
type KeptAnswers struct {
	Namespace string       `json:"namespace"`
	Answers   []KeptAnswer `json:"answers"`
}

// KeptAnswer is what is kept of an answer.
type KeptAnswer struct {
	Origin     string       `json:"origin" enum:"answer"`
	At         time.Time    `json:"at"`
	Generation string       `json:"generation"`
	Question   string       `json:"question"`
	Confidence *float64     `json:"confidence"`
	Triples    []KeptTriple `json:"triples"`
	Documents  []string     `json:"documents" doc:"that it rests on: it counts while all of them are as they were"`
}

// KeptTriple is what an answer said.
type KeptTriple struct {
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
	Support  int    `json:"support" doc:"edges of the corpus that supported it when it was kept"`
}

// Cleared tells what was forgotten.
type Cleared struct {
	Namespaces int64 `json:"namespaces"`
}

func (s *Server) answerRoutes() []route {
	return []route{
		{
			method: "GET", pattern: "/v1/indexes/{index}/answers", id: "listNamespaces", tag: tagAnswers,
			summary: "List the namespaces of kept answers",
			doc: "Those of the key, and those that all who may ask the index share. Answers of method `apr` are kept where " +
				"a query names a namespace and the index keeps any (`write_back.answers`).",
			answer: Namespaces{}, problems: ofArtifact, handler: s.keptBy(s.listNamespaces),
		},
		{
			method: "GET", pattern: "/v1/indexes/{index}/answers/{namespace}", id: "getNamespace", tag: tagAnswers,
			summary: "Get the answers of a namespace", doc: "The oldest first.",
			answer: KeptAnswers{}, problems: ofArtifact, handler: s.keptBy(s.getNamespace),
		},
		{
			method: "DELETE", pattern: "/v1/indexes/{index}/answers/{namespace}", id: "clearNamespace", tag: tagAnswers,
			summary: "Forget the answers of a namespace", doc: "Those of others are not touched.",
			answer: Cleared{}, problems: ofArtifact, handler: s.keptBy(s.clearNamespace),
		},
		{
			method: "DELETE", pattern: "/v1/indexes/{index}/answers", id: "clearAnswers", tag: tagAnswers,
			summary: "Forget all kept answers of an index", doc: "Whosever they are.", scope: access.Operate,
			answer: Cleared{}, problems: ofArtifact, handler: s.keptBy(s.clearAnswers),
		},
	}
}

// keptBy runs a handler over the answers that are kept of an index which is there.
func (s *Server) keptBy(
	handle func(ctx context.Context, store answers.Store, request *http.Request) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
		defer cancel()
		name := request.PathValue("index")
		out, err := func() (any, error) {
			if !core.ValidIndex(name) {
				return nil, unknownIndex(name)
			}
			index := artifact.New(s.Artifacts, name)
			pointer, _, err := index.Current(ctx)
			if err == nil && pointer.Manifest == "" {
				err = unknownIndex(name)
			}
			if err != nil {
				return nil, err
			}
			return handle(ctx, answers.Store{Index: index}, request)
		}()
		if err != nil {
			s.fail(w, request, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, out)
	}
}

func (s *Server) listNamespaces(ctx context.Context, store answers.Store, _ *http.Request) (any, error) {
	listed, err := store.List(ctx, middleware.Of(ctx).Owner())
	out := Namespaces{Namespaces: []Namespace{}}
	for _, one := range listed {
		out.Namespaces = append(out.Namespaces, Namespace{one.Space.Name(), one.Space.Shared(), one.Bytes, one.Written})
	}
	return out, err
}

// addressed is the namespace that an address names. What cannot be a name is not there, as what nobody wrote.
func addressed(ctx context.Context, request *http.Request) (answers.Space, error) {
	name := request.PathValue("namespace")
	space, err := answers.In(middleware.Of(ctx).Owner(), name)
	if fault.Is(err, fault.InvalidParam) {
		return space, noNamespace(name)
	}
	return space, err
}

func noNamespace(name string) error {
	return fault.NotFound.At("find namespace", fault.Quoted(name)).Because("you have no answers in one of that name").
		Advise("list yours with: unweaver answers list")
}

func (s *Server) getNamespace(ctx context.Context, store answers.Store, request *http.Request) (any, error) {
	space, err := addressed(ctx, request)
	if err != nil {
		return nil, err
	}
	kept, err := store.Read(ctx, space)
	if err == nil && len(kept) == 0 {
		err = noNamespace(space.Name())
	}
	out := KeptAnswers{Namespace: space.Name(), Answers: []KeptAnswer{}}
	for _, answer := range kept {
		one := KeptAnswer{
			Origin: answers.Origin, At: answer.At, Generation: answer.Generation, Question: answer.Question,
			Confidence: answer.Confidence, Triples: []KeptTriple{}, Documents: []string{},
		}
		for _, triple := range answer.Triples {
			one.Triples = append(one.Triples,
				KeptTriple{triple.Head, triple.Relation, triple.Tail, len(triple.Support)})
		}
		for _, source := range answer.Sources {
			one.Documents = append(one.Documents, source.Document)
		}
		out.Answers = append(out.Answers, one)
	}
	return out, err
}

func (s *Server) clearNamespace(ctx context.Context, store answers.Store, request *http.Request) (any, error) {
	space, err := addressed(ctx, request)
	if err != nil {
		return nil, err
	}
	there, err := store.Clear(ctx, space)
	if err == nil && !there {
		err = noNamespace(space.Name())
	}
	return Cleared{1}, err
}

func (s *Server) clearAnswers(ctx context.Context, store answers.Store, _ *http.Request) (any, error) {
	gone, err := answers.Drop(ctx, store.Index)
	return Cleared{gone}, err
}
