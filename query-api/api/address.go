package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/query-api/page"
)

// address is a pattern of the mux with all that it answers. Where the last part of the pattern takes the rest of a
// path, keys and names in it may hold slashes: the end of the path tells its routes apart.
type address struct {
	pattern string
	rest    string // name of that part; empty: there is none
	ends    []*ending
}

// ending is what is answered where a path ends so.
type ending struct {
	suffix   string // such as /text; empty: any other end
	handlers map[string]http.HandlerFunc
}

// listAddresses returns the addresses of all routes, of the description and of the page.
func (s *Server) listAddresses() map[string]*address {
	out := map[string]*address{}
	for _, route := range s.table() {
		addRoute(out, route, s.checkRoute(route))
	}
	addRoute(out, route{Method: http.MethodGet, Pattern: "/openapi.json"}, s.serveOpenAPI)
	for _, path := range page.Paths() {
		addRoute(out, route{Method: http.MethodGet, Pattern: path}, page.Serve)
	}
	return out
}

// addRoute adds what answers a route to the address of its pattern.
func addRoute(to map[string]*address, route route, handler http.HandlerFunc) {
	at := to[route.Pattern]
	if at == nil {
		at = &address{pattern: route.Pattern}
		to[route.Pattern] = at
	}
	suffix := ""
	if name, found := strings.CutSuffix(route.Pattern, "...}"); found {
		at.rest = name[strings.LastIndexByte(name, '{')+1:]
		suffix = route.DocPath()[strings.LastIndexByte(route.DocPath(), '}')+1:]
	}
	i := slices.IndexFunc(at.ends, func(end *ending) bool { return end.suffix == suffix })
	if i < 0 {
		i = len(at.ends)
		at.ends = append(at.ends, &ending{suffix, map[string]http.HandlerFunc{}})
	}
	at.ends[i].handlers[route.Method] = handler
}

// findEnding returns the ending of a request's path, and takes it off the name or key before it. A slash that is
// escaped belongs to the key.
func (a *address) findEnding(request *http.Request) *ending {
	name := request.PathValue(a.rest)
	var found *ending
	for _, end := range a.ends {
		switch {
		case end.suffix == "" && found == nil:
			found = end
		case end.suffix != "" && len(name) > len(end.suffix) &&
			strings.HasSuffix(request.URL.EscapedPath(), end.suffix):
			found = end
		}
	}
	if found != nil && found.suffix != "" {
		request.SetPathValue(a.rest, strings.TrimSuffix(name, found.suffix))
	}
	return found
}

// ServeHTTP answers a request by its method: HEAD as GET, OPTIONS with what the address takes, any other with 405.
func (a *address) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	end := a.findEnding(request)
	if end == nil {
		request.Pattern = ""
		http.NotFound(w, request)
		return
	}
	method := request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	request.Pattern = method + " " + a.pattern
	switch handler := end.handlers[method]; {
	case handler != nil:
		handler(w, request)
	case method == http.MethodOptions:
		w.Header().Set("Allow", end.allow())
		w.WriteHeader(http.StatusNoContent)
	default:
		request.Pattern = ""
		w.Header().Set("Allow", end.allow())
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
	}
}

// allow returns the methods that are taken, as Allow has them.
func (e *ending) allow() string {
	var out []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if e.handlers[method] == nil {
			continue
		}
		out = append(out, method)
		if method == http.MethodGet {
			out = append(out, http.MethodHead)
		}
	}
	return strings.Join(append(out, http.MethodOptions), ", ")
}
