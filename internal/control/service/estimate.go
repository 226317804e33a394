package service

import (
	"context"
	"runtime"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
)

// EstimateBuild implements Control.
func (s *Service) EstimateBuild(ctx context.Context, request control.IndexRequest) (core.Estimated, error) {
	spec := request.Spec
	if err := checkSpec("estimate", spec); err != nil {
		return core.Estimated{}, err
	}
	if err := s.grantCorpus(ctx, spec.Corpus, false); err != nil {
		return core.Estimated{}, err
	}
	if err := s.keepAliases(ctx, spec, request.Aliases); err != nil {
		return core.Estimated{}, err
	}
	parser, err := sandbox.New(runtime.GOMAXPROCS(0), s.Limits)
	if err != nil {
		return core.Estimated{}, err
	}
	defer parser.Close()
	report, err := upkeep.EstimateBuild(ctx, upkeep.Estimating{
		Artifacts: s.Stores.Artifacts, Corpora: s.Stores.OpenCorpus, StoreID: s.Stores.StoreID,
		Models: s.Models.Describe, Folder: app.OpenFolder,
		Settings: spec, ReplaceCorpus: request.ReplaceCorpus, Rebuild: request.Rebuild,
		Why: request.Why, Listed: request.Listed, Unpriced: request.Unpriced, Accounts: request.Accounts,
		Parser: parser, Limits: parser.Limits(),
	})
	if err != nil {
		return report, err
	}
	s.reportUnallowed(spec, &report.Report)
	return report, nil
}

// reportUnallowed reports models that this process may not use: a run would not begin. What it would cost is given all
// the same.
func (s *Service) reportUnallowed(spec core.Spec, report *core.Report) {
	refused := s.Models.Check(spec)
	if refused == nil {
		return
	}
	problem := core.Problem{Code: string(fault.CodeOf(refused)), Object: spec.Index, Detail: refused.Error()}
	report.Problems = append(report.Problems, problem)
	report.ProblemsTotal++
}
