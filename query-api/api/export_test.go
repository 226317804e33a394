package api

import (
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
)

// Tellable reports whether errors of a code, wherever they come from, are asked to everybody.
func Tellable(code fault.Code) bool { return isCallerFault(code.At("read", "")) }

// ReadBody reads the body of a query.
func ReadBody(raw []byte) error { return readBody(raw, new(answer.Request)) }

// EnsureIndex makes the entry of an index whose pointer was not read.
func (s *Server) EnsureIndex(name string) { s.served.ServingState(name) }

// Route is a route of the description, with what the description does not say.
type Route struct {
	Method, Path, ID, Scope, Shows string
	Asks, Open, Control            bool
}

// ListRoutes returns the routes of the description, and the patterns of the other addresses.
func ListRoutes() (routes []Route, others []string) {
	server := &Server{}
	server.table = server.listRoutes
	addresses := server.listAddresses()
	for _, one := range server.table() {
		routes = append(routes, Route{one.Method, one.DocPath(), one.ID, string(one.Scope), one.Shows,
			one.Asks, one.Open, one.Control})
		delete(addresses, one.Pattern)
	}
	return routes, slices.Collect(maps.Keys(addresses))
}

// CursorOf writes the cursor of a list.
var CursorOf = cursorOf
