package ops

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// Pause implements Control: what is in flight is paid for and kept, nothing new is asked.
func (s *Service) Pause(ctx context.Context, run string) error {
	return s.update(ctx, run, workflows.UpdatePause)
}

// Resume implements Control.
func (s *Service) Resume(ctx context.Context, run string, budget *corpus.Budget) error {
	if budget == nil {
		return s.update(ctx, run, workflows.UpdateResume)
	}
	return s.update(ctx, run, workflows.UpdateResume, *budget)
}

func (s *Service) update(ctx context.Context, name, update string, args ...any) error {
	run, err := s.resolve(ctx, name)
	if err != nil {
		return err
	}
	h, err := s.Client.UpdateWorkflow(
		ctx,
		client.UpdateWorkflowOptions{
			WorkflowID:   "build/" + run,
			UpdateName:   update,
			Args:         args,
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	)
	if err == nil {
		err = h.Get(ctx, nil)
	}
	return s.fault(err)
}

// Cancel implements Control. What was paid for is kept; nothing that queries see changes.
func (s *Service) Cancel(ctx context.Context, name string) error {
	run, err := s.resolve(ctx, name)
	if err != nil {
		return err
	}
	return s.fault(s.Client.CancelWorkflow(ctx, "build/"+run, ""))
}

// Generations implements Control.
func (s *Service) Generations(ctx context.Context, index string) ([]artifact.Generation, error) {
	gens, err := s.art(index).Generations(ctx)
	if err == nil && len(gens) == 0 {
		err = fault.UnknownIndex.At("list generations of", index).
			Because("no generation of it was built").
			Advise("build it with: unweaver index CORPUS --index " + index)
	}
	return gens, err
}

// Restore implements Control.
func (s *Service) Restore(ctx context.Context, index string) (Run, error) {
	if _, err := s.Generations(ctx, index); err != nil {
		return Run{}, err
	}
	gen := "restore-" + strings.ToLower(time.Now().UTC().Format("20060102T150405Z"))
	b := workflows.Build{Index: index, Generation: gen, Heartbeat: s.Heartbeat}
	_, err := s.Client.ExecuteWorkflow(
		ctx,
		client.StartWorkflowOptions{
			ID: workflows.RestoreID(index), TaskQueue: s.Engine.TaskQueue,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		},
		workflows.RestoreName,
		b,
	)
	return Run{Run: index + "/" + gen}, s.fault(err)
}

// Doctor implements Control: it probes every dependency and says what to do about what fails.
func (s *Service) Doctor(ctx context.Context, spec corpus.Spec) ([]Check, error) {
	var out []Check
	probe := func(name string, f func() (string, error)) {
		check := Check{Name: name, OK: true}
		var err error
		if check.Detail, err = f(); err != nil {
			check.OK, check.Detail = false, err.Error()
			if e := fault.As(err); e != nil {
				check.Hint = e.Hint
			}
		}
		out = append(out, check)
	}
	probe("artifacts", func() (string, error) {
		id, err := artifact.StoreID(ctx, s.Stores.Artifacts)
		return s.Stores.Artifacts.Location("") + " store " + id[:min(8, len(id))], err
	})
	probe("conditional writes", func() (string, error) { return conditional(ctx, s) })
	if s.Stores.Staging != nil {
		probe("import bucket", func() (string, error) {
			key := "unweaver-import/doctor"
			if _, err := blob.Write(ctx, s.Stores.Staging, key, []byte("probe"), blob.Cond{}); err != nil {
				return "", err
			}
			return s.Stores.Staging.Location(""), s.Stores.Staging.Delete(ctx, key)
		})
	}
	probe("classes", func() (string, error) { return "answers", s.Stores.Records.Ping(ctx) })
	probe("vectors", func() (string, error) { return "answers", s.Stores.Vectors.Ping(ctx) })
	probe("temporal", func() (string, error) {
		_, err := s.Client.CheckHealth(ctx, &client.CheckHealthRequest{})
		return "namespace " + s.Engine.Namespace + ", task queue " + s.Engine.TaskQueue, s.fault(err)
	})
	probe("worker", func() (string, error) { return "polls " + s.Engine.TaskQueue, s.workers(ctx) })
	if spec.Corpus != "" {
		probe(
			"corpus",
			func() (string, error) { _, err := s.Stores.Corpus(ctx, spec.Corpus); return spec.Corpus, err },
		)
	}
	probe("chat model", func() (string, error) {
		chat, err := s.Models.Chat(spec)
		if err != nil {
			return "", err
		}
		if !chat.Info().Paid {
			return chat.Info().Label(), nil
		}
		r, err := chat.Complete(ctx, model.Call{Task: model.Answer, System: "Answer with the word ok.", User: "ok?"})
		return fmt.Sprintf("%s answers (%d tokens)", chat.Info().Label(), r.Usage.Prompt+r.Usage.Completion), err
	})
	probe("embedding model", func() (string, error) {
		embedder, err := s.Models.Embedder(spec, spec.Embedding.Provider, spec.Embedding.Dimension)
		if err != nil {
			return "", err
		}
		vs, _, err := embedder.Embed(ctx, []string{"probe"})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, dimension %d", embedder.Info().Label(), len(vs[0])), nil
	})
	probe("temporary folder", func() (string, error) {
		file, err := os.CreateTemp("", "unweaver-doctor-*")
		if err != nil {
			return "", fault.StoreFull.At("write in", os.TempDir()).Because(err).Advise("free space or set TMPDIR")
		}
		_ = file.Close()
		return os.TempDir(), os.Remove(file.Name())
	})
	return out, nil
}
