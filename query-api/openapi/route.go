// Package openapi describes query-api as OpenAPI 3.1: from the table of its routes, the types of their bodies and the
// registry of methods, so that it cannot say anything else than they do.
//
//	route.go       a route, as the table has it
//	openapi.go     the description; schema.go the schemas of types; texts.go what it says in words
//	meanings.txt   what schemas and fields mean where their types say nothing
//	examples.json  requests and responses, by operation
package openapi

import (
	"net/http"

	"github.com/unweaver/unweaver/internal/access"
)

// Route is one operation: how it is reached, and what its description says.
type Route struct {
	Method, Pattern string
	Path            string // as described, where the mux writes it otherwise
	ID              string // operationId: names of methods in generated clients
	Tag             string
	Summary, Doc    string
	Query, Headers  []Parameter
	Body            any    // zero value of its type; nil: none. That of control may be left out
	Bytes           bool   // the body is a document, as it is
	Answer          any    // zero value; nil: not JSON
	Done            []int  // statuses where all is well; none: 200
	Events          string // what the answer holds where it is a stream of events; empty: it never is
	Problems        []int
	Failure         any          // zero value of what errors are reported as; nil: Problem
	Most            string       // what a body may have; empty: 64 KiB
	Kept            bool         // answers have an ETag
	Scope           access.Scope // that a key needs
	Shows           string       // of documents that have labels
	Asks            bool         // may ask models in the name of the caller
	Open            bool         // needs no key
	Control         bool         // builds, steers or uploads: needs a key also where reading needs none
	Handler         http.HandlerFunc
}

// DocPath returns the path in the description.
func (r Route) DocPath() string {
	if r.Path != "" {
		return r.Path
	}
	return r.Pattern
}

// allProblems returns the problems of the route and those that every request can meet.
func (r Route) allProblems() []int {
	out := []int{http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusUnprocessableEntity}
	if !r.Open {
		out = append(out, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusInternalServerError)
		if r.Pattern != "/readyz" {
			out = append(out, http.StatusServiceUnavailable)
		}
	}
	if r.Body != nil || r.Bytes {
		out = append(out, http.StatusRequestTimeout, http.StatusUnsupportedMediaType)
	}
	if r.Control {
		out = append(out, ofControl...)
	}
	return append(out, r.Problems...)
}

// ofControl are the problems of builds, steering and uploads.
var ofControl = []int{
	http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone,
	http.StatusRequestEntityTooLarge, http.StatusNotImplemented, http.StatusBadGateway, http.StatusServiceUnavailable,
	http.StatusGatewayTimeout,
}

// Parameter of a query string, or a header.
type Parameter struct {
	Name    string
	Schema  map[string]any
	Doc     string
	Example any
}
