package api

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// usualNights is how many nights trends are of where nothing else is asked for.
const usualNights = 30

// getTrends answers GET …/trends.
func (s *Server) getTrends(ctx context.Context, request *http.Request) (any, error) {
	index := request.PathValue("index")
	nights, err := readNumber(request.URL.Query(), "nights", 1, runlog.MostNights, usualNights)
	if err != nil {
		return nil, err
	}
	out, err := s.newRunlog().ReadTrends(ctx, index, nights)
	if fault.Is(err, fault.RunNotFound) { // no night is known of an index that exists, or it does not
		_, err = s.served.FindPointer(ctx, index)
	}
	return out, err
}

// runReport answers GET …/runs/{run}/report: the report as Markdown. It holds names of documents, so it is sandboxed:
// whatever shows Markdown in a browser gives it no hold on this origin.
func (s *Server) runReport(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	found, err := s.readRun(ctx, request)
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	if s.answerUnchanged(w, request, tagAnswer(found)) {
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/markdown; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(report.RenderMarkdown(found.Report))) // the caller may have gone
}
