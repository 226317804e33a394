package retrieve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve/election"
)

// Method is one way to answer a question. Everything that is said of a method elsewhere (checks and defaults of the
// API, its schema, the lists of the command line) comes from its Spec, so a further method is one folder below
// internal/methods and one line in methods.Registry.
type Method interface {
	Spec() Spec
	// Run puts chunks, and the entities that speak for them, into the request's result. What it gives explains them; it
	// is called only when the query asks for that and something was found, and may be nil.
	Run(request *Request) (Explanation, error)
}

// Explanation makes the explanation of a result; its type is one of the Spec's Explains.
type Explanation func() any

// Spec is what a method says of itself.
type Spec struct {
	Name     string
	Doc      string
	Entities int     // top_entities, where a query does not say
	Params   []Param // in the order of documents
	Rules    []election.Rule
	Needs    Needs
	Reader   *Reader // nil: it compares nothing of a question but its words and vectors
	Explains []Shape
}

// Shape names a type that an explanation can have.
type Shape struct {
	Name, Doc string
	Zero      any
}

// Needs is what has to be there before a method can run.
type Needs struct {
	Embedding Embedding // of the question
	Hashed    bool      // by the chunk embedder too where that is the built-in one
	Degrades  bool      // runs on words alone while the embedder is down
	Enriched  string    // name of the enrichment that the generation must have; empty: none
	// FillByClassVector lets chunks that fill up go by the class embedder's vector where the chunk embedder is the
	// built-in one; other methods fill up by words then.
	FillByClassVector bool
}

// Reader finds what a method compares of a question beside the whole: texts, which are embedded by the class embedder
// as the question is.
type Reader struct {
	Param   string // of the method, that says who reads: ByRules or ByChat
	ByRules func(generation *Generation, question string) Reading
	// ByChat returns the call of a chat model, and what reads its reply; ok is false where the reply is of no use. A
	// reading without texts leaves that of the rules.
	ByChat func(generation *Generation, question string) (model.Call, func(reply string) (found Reading, ok bool))
}

// Who reads a question.
const (
	ByRules = "rules"
	ByChat  = "chat"
)

// Reading is what a Reader found.
type Reading struct {
	Texts []string
	Rows  [][]float32 // their vectors
	Value any         // what the method knows of them
}

// Embedding says by which embedder a question is embedded.
type Embedding int

// The ways to embed a question.
const (
	NoEmbedding     Embedding = iota
	ByClassEmbedder           // and by the chunk embedder unless that is built in
	ByChunkEmbedder           // alone
)

// Registry is a set of methods in the order in which they are shown.
type Registry struct {
	methods []Method
	byName  map[string]Method
}

// NewRegistry makes a set of methods. It refuses two of one name and parameters of one name in a method.
func NewRegistry(methods ...Method) (*Registry, error) {
	registry := &Registry{methods: methods, byName: map[string]Method{}}
	for _, method := range methods {
		spec := method.Spec()
		if spec.Name == "" || registry.byName[spec.Name] != nil {
			return nil, fault.Internal.At("register method", spec.Name).Because("there is one of that name, or it has none")
		}
		seen := map[string]bool{}
		for _, param := range spec.Params {
			if seen[param.Name] {
				return nil, fault.Internal.At("register method", spec.Name).Because("two parameters " + param.Name)
			}
			seen[param.Name] = true
		}
		registry.byName[spec.Name] = method
	}
	return registry, nil
}

// ListPlainMethods returns the methods that any generation answers; the first is what an index has by default.
func ListPlainMethods() []Method {
	return []Method{hybridMethod{}, unweaverMethod{}, pprMethod{}, alignedMethod{}, vectorMethod{}, bm25Method{}}
}

// All methods in order.
func (r *Registry) All() []Method { return slices.Clone(r.methods) }

// Names returns the names of the methods in order.
func (r *Registry) Names() []string {
	var names []string
	for _, method := range r.methods {
		names = append(names, method.Spec().Name)
	}
	return names
}

// Rules returns the rules of all methods in order, each once.
func (r *Registry) Rules() []string {
	var names []string
	for _, method := range r.methods {
		for _, rule := range method.Spec().Rules {
			if !slices.Contains(names, rule.Name) {
				names = append(names, rule.Name)
			}
		}
	}
	return names
}

// Method returns the method of a name. An unknown one is fault.InvalidParam.
func (r *Registry) Method(name string) (Method, error) {
	if method := r.byName[name]; method != nil {
		return method, nil
	}
	return nil, newInvalid("method", fmt.Sprintf("%q is not known", name), "known: "+strings.Join(r.Names(), ", "))
}

// CheckRule reports whether a method knows a rule: fault.InvalidParam where it does not, with those that do.
func (r *Registry) CheckRule(method, rule string) error {
	var hints []string
	for _, other := range r.methods {
		spec := other.Spec()
		var known []string
		for _, entry := range spec.Rules {
			known = append(known, entry.Name)
		}
		if spec.Name == method && slices.Contains(known, rule) {
			return nil
		}
		if len(known) > 0 {
			hints = append(hints, "rules of method "+spec.Name+": "+strings.Join(known, ", "))
		}
	}
	return newInvalid("rule", fmt.Sprintf("%q is not known for method %s", rule, method), strings.Join(hints, "; "))
}

// ReadParams checks parameters as JSON has them and adds defaults; those of another method are errors.
func (s Spec) ReadParams(given map[string]any) (Params, error) {
	out := s.newDefaults()
	byName := map[string]Param{}
	for _, param := range s.Params {
		byName[param.Name] = param
	}
	known := slices.Sorted(maps.Keys(byName))
	hint := "method " + s.Name + " has no parameters"
	if len(known) > 0 {
		hint = "method " + s.Name + " knows: " + strings.Join(known, ", ")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		param, ok := byName[name]
		if !ok {
			return nil, newInvalid("params."+name, "not a parameter of method "+s.Name, hint)
		}
		value, why := param.Parse(given[name])
		if why != "" {
			return nil, newInvalid("params."+name, why, hint)
		}
		out[name] = value
	}
	return out, nil
}

func (s Spec) newDefaults() Params {
	out := Params{}
	for _, param := range s.Params {
		out[param.Name] = param.Default
	}
	return out
}

func newInvalid(object, why, hint string) error {
	return fault.InvalidParam.At("read query", object).Because(why).Advise(hint)
}
