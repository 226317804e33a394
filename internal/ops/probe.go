package ops

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"go.temporal.io/api/enums/v1"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// workers tells whether any worker polls the task queue: without one a run waits for ever, which is no error of
// Temporal's.
func (s *Service) workers(ctx context.Context) error {
	response, err := s.Client.DescribeTaskQueue(ctx, s.Engine.TaskQueue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return s.fault(err)
	}
	if len(response.GetPollers()) == 0 {
		return fault.EngineDown.At("find a worker of task queue", s.Engine.TaskQueue).
			Because("none has polled it in the last minutes").
			Advise("start unweaver-worker with the same engine.task_queue and engine.namespace")
	}
	return nil
}

// conditional proves that the artifact store honours If-None-Match and If-Match: the lease and the pointer rest on
// them.
func conditional(ctx context.Context, service *Service) (string, error) {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails
	key := "doctor/" + hex.EncodeToString(raw)
	st := service.Stores.Artifacts
	defer func() { _ = st.Delete(context.WithoutCancel(ctx), key) }()
	lacks := func(what string) error {
		return fault.StoreDenied.At("probe", st.Location(key)).
			Because("the store ignores " + what).
			Advise("use a store with conditional writes (stores.artifacts)")
	}
	in, err := blob.Write(ctx, st, key, []byte("1"), blob.Cond{Absent: true})
	if err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, st, key, []byte("2"), blob.Cond{Absent: true}); !fault.Is(err, fault.Precondition) {
		return "", lacks("If-None-Match")
	}
	if _, err := blob.Write(ctx, st, key, []byte("3"), blob.Cond{Match: in.ETag}); err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, st, key, []byte("4"), blob.Cond{Match: in.ETag}); !fault.Is(
		err,
		fault.Precondition,
	) {
		return "", lacks("If-Match")
	}
	return "If-None-Match and If-Match hold", nil
}
