package api

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Tellable reports whether errors of a code, wherever they come from, are asked to everybody.
func Tellable(code fault.Code) bool { return isCallerFault(code.At("read", "")) }

// WaitForNew lets queries wait longer for a new generation than a busy machine takes to open it.
func (c *Config) WaitForNew(patience time.Duration) { c.patience = patience }

// ReadBody reads the body of a query.
func ReadBody(raw []byte) error { return readBody(raw, new(answer.Request)) }

// EnsureIndex makes the entry of an index whose pointer was not read.
func (s *Server) EnsureIndex(name string) { s.ensureIndex(name) }

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
		routes = append(routes, Route{one.method, one.docPath(), one.id, string(one.scope), string(one.shows),
			one.asks, one.open, one.control})
		delete(addresses, one.pattern)
	}
	return routes, slices.Collect(maps.Keys(addresses))
}

// CursorOf writes the cursor of a list.
var CursorOf = cursorOf

// What the artifact says counts, also where its epoch is lower, as after a backup was put back; of two readings the one
// that began later.
func TestTheLatestReadingOfAPointerCountsWhateverItsEpoch(t *testing.T) {
	x, began := &index{}, time.Now()
	for i, c := range []struct {
		epoch, want int64
		after       time.Duration
	}{{4, 4, 0}, {1, 1, 2 * time.Second}, {9, 1, time.Second}, {2, 2, 3 * time.Second}} {
		x.learnPointer(core.Pointer{Generation: "g", Manifest: "m", Epoch: c.epoch}, core.Pointer{}, began.Add(c.after))
		assert.Equal(t, c.want, x.lastPointer().Epoch, "reading %d: epoch", i)
	}
}
