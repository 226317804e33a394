package pipeline_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// cutOffNow begins a build that ends before a stage.
func (s *site) cutOffNow(t *testing.T, stage string) pipeline.Job {
	t.Helper()
	job, holder := s.leased(t)
	stop := context.Canceled
	s.before = func(next string) {
		if next == stage {
			panic(stop)
		}
	}
	func() {
		defer func() {
			if got, _ := recover().(error); !errors.Is(got, stop) {
				t.Errorf("the build did not come to %s", stage)
			}
		}()
		_, err := s.stages(t.Context(), job, holder)
		t.Error(err)
	}()
	s.before = nil
	return job
}

// end gives up the lease of a build that was cut off.
func (s *site) end(t *testing.T, job pipeline.Job) {
	t.Helper()
	holder := pipeline.Holder{Workflow: "build/" + job.Name(), Run: "run"}
	err := s.unit(t.Context(), job, "end", func(ctx context.Context, run *pipeline.Run) error {
		return run.End(ctx, holder, pipeline.Ending{Status: core.StatusCancelled})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// forgetPlanned has the plan of a run look as releases left it that wrote its trust into a file of its own.
func (s *site) forgetPlanned(t *testing.T) {
	t.Helper()
	forgotten := 0
	for info, err := range s.Artifacts.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(info.Key, "/build.json") {
			continue
		}
		var planned map[string]any
		if _, err := blob.ReadJSON(t.Context(), s.Artifacts, info.Key, &planned); err != nil {
			t.Fatal(err)
		}
		if _, told := planned["trust"]; told {
			forgotten++
		}
		delete(planned, "trust")
		if _, err := blob.WriteJSON(t.Context(), s.Artifacts, info.Key, planned, blob.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	if forgotten == 0 {
		t.Error("no plan said whom its run trusts")
	}
}

// cutOffBefore is cutOffNow by a release that told no domains apart.
func (s *site) cutOffBefore(t *testing.T, stage string) pipeline.Job {
	t.Helper()
	job := s.cutOffNow(t, stage)
	s.forgetPlanned(t)
	forgotten := 0
	for info, err := range s.Artifacts.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(info.Key, "/trust.json") {
			forgotten++
			if err := s.Artifacts.Delete(t.Context(), info.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if forgotten == 0 {
		t.Error("the run had no trust.json")
	}
	return job
}

func TestAFirstBuildThatAnEarlierReleaseWasCutOffInIsNotPaidForAgain(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	at(s, "http://one.example/v1", "")
	s.end(t, s.cutOffBefore(t, "verify"))
	if sold.soldAll(nil) == 0 {
		t.Fatal("nothing was paid")
	}
	asWired(s, sold)
	for range 2 { // the first is cut off too
		restart(s)
		before := maps.Clone(sold.texts)
		s.end(t, s.cutOffNow(t, "verify"))
		if paid := sold.soldAll(before); paid != 0 {
			t.Errorf("%d sold again", paid)
		}
	}
	restart(s)
	before := maps.Clone(sold.texts)
	s.night(t)
	if paid := sold.soldAll(before); paid != 0 {
		t.Errorf("%d sold again", paid)
	}
}

func TestAConfigurationThatCameLaterGetsNothingOfACutOffBuild(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	at(s, "http://one.example/v1", "")
	s.end(t, s.cutOffBefore(t, "verify"))
	sold.soldAll(nil)
	asWired(s, sold)
	restart(s)
	at(s, "http://two.example/v1", "")
	before := maps.Clone(sold.texts)
	s.night(t)
	if paid := sold.soldAll(before); paid == 0 {
		t.Error("another server got what the first made")
	}
}

func TestARunThatBeginsAgainFromPlanGoesOnPayingAsItBegan(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	at(s, "http://one.example/v1", "")
	job := s.cutOffBefore(t, "verify")
	if sold.soldAll(nil) == 0 {
		t.Fatal("nothing was paid")
	}
	asWired(s, sold)
	restart(s)
	holder := pipeline.Holder{Workflow: "build/" + job.Name(), Run: "run"}
	s.lease(t, &job, holder)
	job.Rebuild, job.Anew = true, "untold"
	before := maps.Clone(sold.texts)
	if _, err := s.stages(t.Context(), job, holder); err != nil {
		t.Fatal(err)
	}
	if paid := sold.soldAll(before); paid != 0 {
		t.Errorf("%d sold again", paid)
	}
}

func TestAServerThatComesBackIsNotPaidAgainForWhatNamesNoDomain(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	at(s, "http://one.example/v1", "")
	first := s.night(t)
	sold.soldAll(nil)
	forget(t, s, *first.manifest)
	asWired(s, sold)
	restart(s)
	at(s, "http://two.example/v1", "")
	before := maps.Clone(sold.texts)
	s.night(t)
	if paid := sold.soldAll(before); paid == 0 {
		t.Error("another server got what the first made")
	}
	restart(s)
	at(s, "http://one.example/v1", "")
	before = maps.Clone(sold.texts)
	s.night(t)
	if paid := sold.soldAll(before); paid != 0 {
		t.Errorf("%d sold again", paid)
	}
}

// An attempt at plan that ends late may see what another one did not, such as a run that shows whom this index paid:
// the run goes on paying as its recorded plan says.
func TestALatePlanChangesNothingOfWhomItsRunTrusts(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	at(s, "http://one.example/v1", "")
	older := s.cutOffBefore(t, "verify")
	s.end(t, older)
	if sold.soldAll(nil) == 0 {
		t.Fatal("nothing was paid")
	}
	unseen := s.contents(t, older)
	for key := range unseen {
		if err := s.Artifacts.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	asWired(s, sold)
	restart(s)
	job, holder := s.leased(t)
	before := maps.Clone(sold.texts)
	s.late(t, job, unitOf{"plan", "/build.json", func(ctx context.Context, run *pipeline.Run) (any, error) {
		planned, err := run.Plan(ctx)
		if err != nil {
			return nil, err
		}
		trust, err := pipeline.TrustOf(ctx, run)
		return []any{planned, trust}, err
	}}, func() {
		s.write(t, map[string]string{"later.md": "# Later\n\nCame later."})
		for key, content := range unseen {
			if _, err := blob.Write(t.Context(), s.Artifacts, key, []byte(content), blob.Cond{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if _, err := s.stages(t.Context(), job, holder); err != nil {
		t.Fatal(err)
	}
	if paid := sold.soldAll(before); paid == 0 {
		t.Error("what a late attempt found was taken for what the plan recorded")
	}
}

// A run whose plan a release before wrote goes on with whom that plan's own file says it trusts.
func TestARunOfAReleaseThatWroteItsTrustBesideThePlanGoesOn(t *testing.T) {
	for name, told := range map[string]func(*site){
		"beside the plan": func(s *site) { s.forgetPlanned(t) },
		"in the plan": func(s *site) {
			for _, key := range keysBelow(t, s.Artifacts, "tenant/runs/") {
				if strings.HasSuffix(key, "/trust.json") {
					if err := s.Artifacts.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
			}
		},
	} {
		s := newSite(t, sample(8))
		sold := paying(s)
		at(s, "http://one.example/v1", "")
		s.night(t) // by a release that names no domain
		sold.soldAll(nil)
		asWired(s, sold)
		anotherIndex(t, s, "tenant")
		job := s.cutOffNow(t, "chunk")
		told(s)
		restart(s)
		s.lease(t, &job, pipeline.Holder{Workflow: "build/" + job.Name(), Run: "run"})
		before := maps.Clone(sold.texts)
		if _, err := s.stages(t.Context(), job, pipeline.Holder{Workflow: "build/" + job.Name(), Run: "run"}); err != nil {
			t.Fatal(err)
		}
		if paid := sold.soldAll(before); paid == 0 {
			t.Errorf("%s: another index got what names no domain", name)
		}
	}
}
