package api

import (
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/query-api/page"
)

// address is a pattern of the mux with all that it answers, by the end of a path and the method. Where the last part of
// the pattern takes the rest of a path, keys and names in it may hold slashes: an end such as /text tells its routes
// apart. The empty end is any other.
type address struct {
	pattern string
	ends    map[string]handlers
}

// handlers are what is answered where a path ends so.
type handlers map[string]http.HandlerFunc

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
		at = &address{route.Pattern, map[string]handlers{}}
		to[route.Pattern] = at
	}
	end := ""
	if path := route.DocPath(); strings.HasSuffix(route.Pattern, "...}") {
		end = path[strings.LastIndexByte(path, '}')+1:]
	}
	if at.ends[end] == nil {
		at.ends[end] = handlers{}
	}
	at.ends[end][route.Method] = handler
}

// findEnd returns what a request's path ends with, and takes that off the name or key before it. A slash that is
// escaped belongs to the key.
func (a *address) findEnd(request *http.Request) handlers {
	rest := strings.TrimSuffix(a.pattern[strings.LastIndexByte(a.pattern, '{')+1:], "...}")
	for end, found := range a.ends {
		name, cut := strings.CutSuffix(request.PathValue(rest), end)
		if end != "" && cut && name != "" && strings.HasSuffix(request.URL.EscapedPath(), end) {
			request.SetPathValue(rest, name)
			return found
		}
	}
	return a.ends[""]
}

// ServeHTTP answers a request by its method: HEAD as GET, OPTIONS with what the address takes, any other with 405.
func (a *address) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	end := a.findEnd(request)
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
	switch handler := end[method]; {
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
func (h handlers) allow() string {
	var out []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if h[method] == nil {
			continue
		}
		out = append(out, method)
		if method == http.MethodGet {
			out = append(out, http.MethodHead)
		}
	}
	return strings.Join(append(out, http.MethodOptions), ", ")
}
