package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// pinnedFor is how long, in seconds, clients may keep what a request of a named generation brought: a generation never
// changes, and its name is not used again while anybody could still have it.
const pinnedFor = "86400"

// tagOf returns the entity tag of an answer that a generation and the request's address determine. It is weak: packed
// and plain answers share it.
func tagOf(request *http.Request, generation *retrieve.Generation) string {
	manifest := generation.Manifest
	parts := []string{
		version.String(), request.URL.RequestURI(), manifest.Index, manifest.Generation, manifest.Created.String(),
		manifest.Config.String(), generation.ViewKey(),
	}
	if hashes := manifest.Hashes; !generation.HasLabels() { // which tell of documents that the caller may not read
		parts = append(parts, hashes.Content.Digest().String(), hashes.Text.Digest().String(),
			hashes.Vector.Digest().String())
	}
	return newTag(parts...)
}

func newTag(parts ...string) string {
	return `W/"` + core.Sum(parts...).String()[:32] + `"`
}

// tagAnswer returns the tag of an answer of other sources, from what it says.
func tagAnswer(v any) string {
	raw, _ := json.Marshal(v) // what cannot be encoded fails when it is written
	return newTag(version.String(), string(raw))
}

// answerUnchanged sets the headers of an answer that clients may keep, and answers 304 where the client has it: true.
// Who showed a key may see more than others, where documents have labels.
func (s *Server) answerUnchanged(w http.ResponseWriter, request *http.Request, tag string) bool {
	private := s.Policy.Required || middleware.CallerOf(request.Context()).ID() != ""
	return s.answerKept(w, request, tag, false, private)
}

// answerKept does what answerUnchanged does; pinned answers are kept without asking again, private ones are what one
// caller may read and another may not.
func (s *Server) answerKept(
	w http.ResponseWriter, request *http.Request, tag string, pinned, private bool,
) bool {
	keep := "no-cache"
	if pinned {
		keep = "max-age=" + pinnedFor + ", immutable"
	}
	header := w.Header()
	if private { // caches that clients share must not give it to another one
		keep = "private, " + keep
		header.Add("Vary", "Authorization, X-API-Key")
		if s.Policy.SignOn != nil {
			header.Add("Vary", "Cookie")
		}
	}
	header.Set("Cache-Control", keep)
	header.Set("ETag", tag)
	if !hasTag(request.Header.Values("If-None-Match"), tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// hasTag reports whether If-None-Match names a tag, weakly compared. What it may say of every tag (*) is of no use
// here.
func hasTag(lines []string, tag string) bool {
	opaque := strings.TrimPrefix(tag, "W/")
	for _, line := range lines {
		for given := range strings.SplitSeq(line, ",") {
			if strings.TrimPrefix(strings.TrimSpace(given), "W/") == opaque {
				return true
			}
		}
	}
	return false
}

// serveOpenAPI answers GET /openapi.json.
func (s *Server) serveOpenAPI(w http.ResponseWriter, request *http.Request) {
	if s.answerUnchanged(w, request, s.openapiTag) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi) // the caller may have gone
}
