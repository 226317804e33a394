package ops

import (
	"context"
	"runtime"

	"github.com/unweaver/unweaver/internal/build"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document/box"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/wiring"
)

// Estimate implements Control.
func (s *Service) Estimate(ctx context.Context, request IndexRequest) (corpus.Estimated, error) {
	spec := request.Spec
	if !corpus.ValidIndex(spec.Index) {
		return corpus.Estimated{}, slug("index", spec.Index)
	}
	if spec.Corpus == "" {
		return corpus.Estimated{}, fault.CorpusMissing.At("estimate", spec.Index).
			Because("no corpus is given").
			Advise("give a folder or s3://bucket/prefix as argument, or set indexes." + spec.Index + ".corpus")
	}
	if err := s.grant(ctx, spec.Corpus, false); err != nil {
		return corpus.Estimated{}, err
	}
	if err := s.keepAliases(ctx, spec, request.Aliases); err != nil {
		return corpus.Estimated{}, err
	}
	parser, err := box.New(runtime.GOMAXPROCS(0), s.Limits)
	if err != nil {
		return corpus.Estimated{}, err
	}
	defer parser.Close()
	report, err := build.Estimate(ctx, build.Estimating{
		Artifacts: s.Stores.Artifacts, Corpora: s.Stores.Corpus, StoreID: s.Stores.StoreID,
		Models: s.Models.Describe, Folder: wiring.Folder,
		Settings: spec, ReplaceCorpus: request.ReplaceCorpus, Rebuild: request.Rebuild,
		Why: request.Why, Listed: request.Listed, Unpriced: request.Unpriced, Parser: parser, Limits: parser.Limits(),
	})
	if err != nil {
		return report, err
	}
	s.unallowed(spec, &report.Report)
	return report, nil
}

// unallowed tells of models that this process may not use: a run would not begin. What it would cost is told all the
// same.
func (s *Service) unallowed(spec corpus.Spec, report *corpus.Report) {
	refused := s.Models.Check(spec)
	if refused == nil {
		return
	}
	problem := corpus.Problem{Code: string(fault.CodeOf(refused)), Object: spec.Index, Detail: refused.Error()}
	report.Problems = append(report.Problems, problem)
	report.ProblemsTotal++
}
