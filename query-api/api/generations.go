package api

import (
	"context"
	"net/http"
	"time"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

// IndexCard is what one index is: what is served of it, since when, and what is wrong.
type IndexCard struct {
	served.IndexInfo
	Bytes       int64      `json:"bytes" doc:"size of the served generation in the artifact store"`
	Published   *time.Time `json:"published" doc:"when it was published; null: not known"`
	AgeSeconds  float64    `json:"age_seconds" doc:"seconds since it was published; if not published: since it was built"`
	Problems    int64      `json:"problems" doc:"documents and passages that still cannot be used"`
	Failed      int64      `json:"failed" doc:"documents of the corpus that cannot be used"`
	Stale       int64      `json:"stale" doc:"how many of them are served with earlier content"`
	DeadLetters int64      `json:"dead_letters" doc:"passages whose extraction failed"`
	Serving     string     `json:"serving" enum:"ready,behind,opening,failed,closed" doc:"in this replica; see /readyz"`
}

// GenerationDetail is one generation with its report.
type GenerationDetail struct {
	Index string `json:"index"`
	artifact.Generation
	Bytes  int64         `json:"bytes" doc:"size of its files in the artifact store"`
	Tokens core.Tokens   `json:"tokens" doc:"tokens that the run of the generation paid for"`
	Cost   float64       `json:"cost"`
	Parent *ParentCounts `json:"parent" doc:"previous generation, which the build reused; null: none, or deleted"`
	Diff   *core.Diff    `json:"diff" doc:"changes of documents since the parent; null: the report is unreadable"`
	Report *core.Report  `json:"report" doc:"report of its run; null for keys without scope operate"`
}

// ParentCounts is what the parent of a generation held.
type ParentCounts struct {
	Generation string `json:"generation"`
	Documents  int64  `json:"documents"`
	Chunks     int64  `json:"chunks"`
	Classes    int64  `json:"classes"`
}

// sizeOf returns the size of a generation's files in the artifact store, in bytes.
func sizeOf(manifest *core.Manifest) int64 {
	size := int64(0)
	for _, segment := range manifest.Segments.All() {
		size += segment.Bytes
	}
	return size
}

// reportOf reads the report of a generation; nil where there is none that can be read.
func reportOf(ctx context.Context, index artifact.Index, generation string) (*core.Report, error) {
	report, err := index.ReadReport(ctx, generation)
	if artifact.IsDamage(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if report.Stages == nil { // it ended before its first
		report.Stages = []core.StageProgress{}
	}
	return &report, nil
}

// serveCard answers GET /v1/indexes/{index}.
func (s *Server) serveCard(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	out, err := s.cardOf(ctx, request.PathValue("index"))
	if err != nil {
		s.writeError(w, request, err)
		return
	}
	since := out.Created
	if out.Published != nil {
		since = *out.Published
	}
	if s.answerUnchanged(w, request, tagAnswer(out)) { // of what stays: the age is another with every request
		return
	}
	out.AgeSeconds = time.Since(since).Round(time.Second).Seconds()
	writeJSON(w, out)
}

func (s *Server) cardOf(ctx context.Context, name string) (IndexCard, error) {
	index := artifact.Index{Store: s.Artifacts, Name: name}
	pointer, _, err := index.ReadPointer(ctx)
	if err == nil && pointer.Manifest == "" {
		err = served.UnknownIndex(name)
	}
	if err != nil {
		return IndexCard{}, err
	}
	var manifest *core.Manifest
	var report *core.Report
	var stored blob.Info
	if err := parallel.RunTogether(ctx,
		func(ctx context.Context) (err error) { manifest, err = index.ManifestOf(ctx, pointer); return err },
		func(ctx context.Context) (err error) {
			report, err = reportOf(ctx, index, pointer.Generation)
			return err
		},
		func(ctx context.Context) (err error) {
			stored, err = s.Artifacts.Stat(ctx, index.CurrentKey())
			return err
		},
	); err != nil {
		return IndexCard{}, err
	}
	counts := manifest.Counts
	out := IndexCard{
		IndexInfo: served.InfoOf(name, pointer, manifest), Bytes: sizeOf(manifest),
		Problems: counts.Failed + counts.DeadLetters, Failed: counts.Failed, Stale: counts.Stale,
		DeadLetters: counts.DeadLetters, Serving: s.served.ServingState(name),
	}
	if report != nil {
		out.Problems = report.ProblemsTotal
	}
	if out.HideCounts(middleware.CallerOf(ctx).Readers()) {
		out.Bytes, out.Problems, out.Failed, out.Stale, out.DeadLetters = 0, 0, 0, 0, 0
	}
	if !stored.Modified.IsZero() {
		published := stored.Modified.UTC()
		out.Published = &published
	}
	return out, nil
}

// getGeneration answers GET /v1/indexes/{index}/generations/{generation}.
func (s *Server) getGeneration(ctx context.Context, request *http.Request) (any, error) {
	name, wanted := request.PathValue("index"), request.PathValue("generation")
	out := GenerationDetail{Index: name}
	if !core.ValidSlug(wanted) {
		return nil, served.UnknownGeneration(name, wanted, "this is not a valid name of a generation")
	}
	if err := s.served.NeedAllRuns(ctx, name); err != nil { // a report has what was asked of the generation before
		return nil, err
	}
	index := artifact.Index{Store: s.Artifacts, Name: name}
	var pointer core.Pointer
	var ref core.GenerationRef
	var missing error
	if err := parallel.RunTogether(ctx,
		func(ctx context.Context) (err error) { pointer, _, err = index.ReadPointer(ctx); return err },
		func(ctx context.Context) (err error) { out.Report, err = reportOf(ctx, index, wanted); return err },
		func(ctx context.Context) (err error) {
			if ref, err = index.GenerationRef(ctx, wanted); artifact.IsDamage(err) {
				missing, err = err, nil // the pointer may know it all the same
			}
			return err
		},
	); err != nil {
		return nil, err
	}
	switch {
	case pointer.Manifest == "" && fault.Is(missing, fault.UnknownGen):
		return nil, served.UnknownIndex(name)
	case pointer.Generation == wanted:
		ref = core.GenerationRef{Manifest: pointer.Manifest, Seq: pointer.Seq, State: "current"}
	case fault.Is(missing, fault.UnknownGen):
		return nil, served.UnknownGeneration(name, wanted, "the generation does not exist, or was deleted")
	case missing != nil:
		return nil, missing
	}
	manifest, err := index.Manifest(ctx, ref.Manifest)
	if err != nil {
		return nil, err
	}
	out.Generation = artifact.DescribeGeneration(wanted, ref, manifest)
	out.Bytes, out.Tokens, out.Cost = sizeOf(manifest), manifest.Tokens, manifest.Cost
	if out.Report != nil {
		out.Diff = &out.Report.Diff
	}
	if manifest.Parent != "" {
		parent, err := index.Manifest(ctx, manifest.Parent)
		if err == nil {
			out.Parent = &ParentCounts{
				parent.Generation, parent.Counts.Documents, parent.Counts.Chunks, parent.Counts.Classes,
			}
		} else if !artifact.IsDamage(err) {
			return nil, err
		}
	}
	if !middleware.CallerOf(ctx).Includes(access.Operate) {
		out.Report = nil
	}
	return out, nil
}
