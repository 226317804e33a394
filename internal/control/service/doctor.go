package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/workflows"
)

// RunDoctor implements Control: it probes every dependency and says what to do about what fails.
func (s *Service) RunDoctor(ctx context.Context, spec core.Spec) ([]control.Check, error) {
	var out []control.Check
	probe := func(name string, f func() (string, error)) {
		check := control.Check{Name: name, OK: true}
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
	probe("conditional writes", func() (string, error) { return probeConditional(ctx, s) })
	if s.Stores.Staging != nil {
		probe("import bucket", func() (string, error) { return probeStaging(ctx, s.Stores.Staging) })
	}
	probe("classes", func() (string, error) { return "answers", s.Stores.Records.Ping(ctx) })
	probe("vectors", func() (string, error) { return "answers", s.Stores.Vectors.Ping(ctx) })
	probe("indexes", func() (string, error) { return s.probeServed(ctx) })
	probe("temporal", func() (string, error) {
		_, err := s.Client.CheckHealth(ctx, &client.CheckHealthRequest{})
		return "namespace " + s.Engine.Namespace + ", task queue " + s.Engine.TaskQueue, s.toFault(err)
	})
	probe(control.CheckWorker, func() (string, error) { return "polls " + s.Engine.TaskQueue, s.checkWorkers(ctx) })
	computing := workflows.ComputingQueue(s.Engine.TaskQueue)
	probe(control.CheckComputing, func() (string, error) {
		return "polls " + computing, s.checkComputers(ctx, computing)
	})
	if spec.Corpus != "" {
		var corpus blob.Store
		probe("corpus", func() (_ string, err error) {
			if err = s.grantCorpus(ctx, spec.Corpus, false); err == nil {
				corpus, err = s.Stores.OpenCorpus(ctx, spec.Corpus)
			}
			return spec.Corpus, err
		})
		if corpus != nil && spec.ReadAs().S3Tags {
			probe("tags of objects", func() (string, error) { return probeTags(ctx, corpus) })
		}
	}
	for _, chat := range listChats(spec) {
		probe(chat.name, func() (string, error) { return s.probeChat(ctx, spec, chat.role) })
	}
	probe("embedding model", func() (string, error) { return s.probeEmbedder(ctx, spec) })
	if spec.Rerank.IsOn() {
		probe("reranker", func() (string, error) { return s.probeRanker(ctx, spec) })
	}
	manifest, _ := s.readPublished(ctx, spec.Index, "") // nil where it cannot be read, as another probe reports
	if folders := s.Stores.ListFolders(); len(folders) > 0 {
		probe("disks", func() (string, error) { return probeDisks(folders, manifest) })
	}
	probe("temporary folder", func() (string, error) { return probeTemporary(spec.Index, manifest) })
	return out, nil
}

// probeTags asks for the tags of the first objects of a corpus. It fails where the store refuses those of all.
func probeTags(ctx context.Context, corpus blob.Store) (string, error) {
	asked := 0
	var refused []string
	var last error
	for info, err := range corpus.List(ctx, "", "") {
		if err != nil {
			return "", err
		}
		if asked++; asked > blob.TagProbes {
			asked--
			break
		}
		_, err := blob.ReadTags(ctx, corpus, info.Key)
		switch {
		case errors.Is(err, blob.ErrTagsRefused):
			refused, last = append(refused, fault.QuoteName(info.Key)), err
		case err != nil && !fault.Is(err, fault.NotFound):
			return "", err
		}
	}
	switch {
	case len(refused) == asked && last != nil:
		return "", last
	case len(refused) > 0:
		return fmt.Sprintf("refused for %d of %d objects: %s", len(refused), asked, strings.Join(refused, ", ")), nil
	}
	return fmt.Sprintf("given for %d objects", asked), nil
}

// probedChat is a chat model that is probed once for all its roles.
type probedChat struct{ role, name string }

// listChats lists the chat models of an index, each once. The name of a check lists the roles of its model, where there
// are several models.
func listChats(spec core.Spec) []probedChat {
	type asked struct {
		provider, url, key, model string
		batch, pages              bool
	}
	var out []probedChat
	at := map[asked]int{}
	roles := []string{core.RoleExtraction, core.RoleShortening, core.RoleTriples, core.RoleAnswer}
	if spec.VisionBy() != nil {
		roles = append(roles, core.RoleVision)
	}
	for _, role := range roles {
		chat := spec.ChatOf(role)
		one := asked{chat.Provider, chat.BaseURL, chat.APIKeyEnv, chat.Model, chat.Batch.IsOn(), role == core.RoleVision}
		if i, known := at[one]; known {
			out[i].name += ", " + role
			continue
		}
		at[one] = len(out)
		out = append(out, probedChat{role, "chat model of " + role})
	}
	if len(out) == 1 {
		out[0].name = "chat model"
	}
	return out
}

// probeChat asks a paid model for one word; others need no probe.
func (s *Service) probeChat(ctx context.Context, spec core.Spec, role string) (string, error) {
	chat, err := s.Models.Chat(spec, role)
	if err != nil {
		return "", err
	}
	label := chat.Info().Label()
	if role == core.RoleExtraction && spec.ChatOf(role).Batch.IsOn() {
		label += ", extraction in batches,"
	}
	if !chat.Info().Paid {
		return strings.TrimSuffix(label, ","), nil
	}
	call := model.Call{Task: model.Answer, System: "Answer with the word ok.", User: "ok?"}
	if role == core.RoleVision {
		call.Pictures = [][]byte{model.ProbePicture()}
	}
	reply, err := chat.Complete(ctx, call)
	return fmt.Sprintf("%s answers (%d tokens)", label, reply.Usage.Prompt+reply.Usage.Completion), err
}

func (s *Service) probeEmbedder(ctx context.Context, spec core.Spec) (string, error) {
	if spec.Embedding.IsInside() { // an embedder that is open already says nothing of the files
		if err := s.Models.Check(spec); err != nil || s.Models.IsRemote() {
			return "built-in " + spec.Embedding.Model + ": checked by worker and query-api only, which read its weights", err
		}
	}
	embedder, err := s.Models.Embedder(spec, app.Provider(spec), spec.Embedding.Dimension)
	if err != nil {
		return "", err
	}
	embedded, _, err := embedder.Embed(ctx, []string{"probe"})
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, dimension %d", embedder.Info().Label(), len(embedded[0]))
	if spec.Embedding.IsInside() {
		detail += ", weights verified in " + s.Models.Weights()
	}
	return detail, nil
}

// probeRanker has two texts scored, in the time that a query gives it.
func (s *Service) probeRanker(ctx context.Context, spec core.Spec) (string, error) {
	ranker, err := s.Models.Ranker(spec)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.Rerank.Timeout))
	defer cancel()
	at := time.Now()
	texts := []string{model.ProbeText, "Milk turns into cheese."}
	scores, _, err := ranker.Rerank(ctx, "Where was Marie Curie born?", texts)
	if err != nil {
		return "", err
	}
	took := time.Since(at).Round(time.Millisecond)
	detail := fmt.Sprintf("%s scores two texts %.3g and %.3g in %s", ranker.Info().Label(), scores[0], scores[1], took)
	if scores[0] <= scores[1] {
		return "", fault.BadRerank.At("rerank by", ranker.Info().Label()).
			Because("it ranks a text that answers a question below one that does not: " + detail).
			Advise("check that models.rerank.model is a reranker")
	}
	return detail, nil
}

// AwaitWorkers waits until workers poll the queues that a build needs, but not longer than ctx: the engine shows a
// worker that has started only after its first polls.
func (s *Service) AwaitWorkers(ctx context.Context) {
	for s.checkWorkers(ctx) != nil || s.checkComputers(ctx, workflows.ComputingQueue(s.Engine.TaskQueue)) != nil {
		if retry.Wait(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}

// checkWorkers reports whether any worker polls the task queue: without one a run waits for ever, which is no error of
// Temporal's.
func (s *Service) checkWorkers(ctx context.Context) error {
	polled, err := s.isPolled(ctx, s.Engine.TaskQueue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil || polled {
		return err
	}
	return fault.EngineDown.At("find a worker of task queue", s.Engine.TaskQueue).
		Because("no worker polled it in the last minutes").
		Advise("start unweaver-worker with the same engine.task_queue and engine.namespace; on one machine: unweaver dev")
}

// isPolled reports whether a worker asked a queue for tasks in the last minutes.
func (s *Service) isPolled(ctx context.Context, queue string, kind enums.TaskQueueType) (bool, error) {
	response, err := s.Client.DescribeTaskQueue(ctx, queue, kind)
	return len(response.GetPollers()) > 0, s.toFault(err)
}

// checkComputers reports whether any worker polls the queue of what fills a core: those of an older version do not.
func (s *Service) checkComputers(ctx context.Context, queue string) error {
	polled, err := s.isPolled(ctx, queue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil || polled {
		return err
	}
	return newComputersFault(queue)
}

func newComputersFault(queue string) error {
	return fault.EngineDown.At("find a worker of task queue", queue).
		Because("no worker polled it in the last minutes, so computing steps (chunk, reduce, segment) wait").
		Advise("start unweaver-worker of this version with the same engine.task_queue and engine.namespace, and " +
			"worker.role all or cpu; on one machine: unweaver dev")
}

// probeStaging proves that the bucket of bulk imports lets copies be written, found and deleted, many at a time: the
// collect stage deletes what a cancelled import left.
func probeStaging(ctx context.Context, store blob.Store) (string, error) {
	prefix := core.ImportRoot + "doctor/"
	key := prefix + strings.ToLower(rand.Text())
	if _, err := blob.Write(ctx, store, key, []byte("probe"), blob.Cond{}); err != nil {
		return "", err
	}
	advise := func(err error) error {
		if fault.Is(err, fault.StoreDenied) {
			return fault.StoreDenied.At("probe", store.Location(key)).Because(err).
				Advise("let the worker's credentials list, read, write and delete below " + core.ImportRoot + " of " +
					"stores.milvus.bucket")
		}
		return err
	}
	found := false
	for info, err := range store.List(ctx, prefix, "") {
		if err != nil {
			_ = store.Delete(ctx, key)
			return "", advise(err)
		}
		found = found || info.Key == key
	}
	if err := store.DeleteAll(ctx, []string{key}); err != nil {
		return "", advise(err)
	}
	if !found {
		return "", fault.StoreDenied.At("probe", store.Location(key)).
			Because("the listing lacks an object just written").
			Advise("set stores.milvus.bucket and stores.s3.endpoint to the bucket that Milvus reads")
	}
	return store.Location(""), nil
}

// probeConditional proves that the artifact store honours If-None-Match and If-Match: the lease and the pointer rest on
// them.
func probeConditional(ctx context.Context, service *Service) (string, error) {
	store := service.Stores.Artifacts
	key := "doctor/" + strings.ToLower(rand.Text())
	defer func() { _ = store.Delete(context.WithoutCancel(ctx), key) }()
	lacks := func(what string) error {
		return fault.StoreDenied.At("probe", store.Location(key)).
			Because("the store ignores " + what).
			Advise("use a store with conditional writes (stores.artifacts)")
	}
	first, err := blob.Write(ctx, store, key, []byte("1"), blob.Cond{Absent: true})
	if err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, store, key, []byte("2"), blob.Cond{Absent: true}); !fault.Is(err, fault.Precondition) {
		return "", lacks("If-None-Match")
	}
	if _, err := blob.Write(ctx, store, key, []byte("3"), blob.Cond{Match: first.ETag}); err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, store, key, []byte("4"), blob.Cond{Match: first.ETag}); !fault.Is(
		err, fault.Precondition,
	) {
		return "", lacks("If-Match")
	}
	return "If-None-Match and If-Match hold", nil
}

const (
	// needAlways is the temporary room of any build: units of work that are sorted outside of memory.
	needAlways = 256 << 20
	// needCopies is how often the mapped files of a generation lie there at once: as they are gathered, as they are
	// written, and those of the generation before.
	needCopies = 3
	// needChunk is what the mapped files take of a chunk (docs/benchmarks.md: 2.5 to 4 KB), for the advice about an
	// index that is not built yet.
	needChunk = 4 << 10
)

// temporaryNeed estimates how many bytes the next build of an index writes to its worker's temporary folder at once;
// nil: it was not built yet, and the need is what an empty one has.
func temporaryNeed(manifest *core.Manifest) int64 {
	need := int64(needAlways)
	if manifest == nil {
		return need
	}
	for _, segment := range manifest.Segments.IDF {
		need += needCopies * segment.Bytes
	}
	return need
}

// probeTemporary writes to the temporary folder of this process, and compares what it has with what a build needs.
// Workers of a cluster have folders of their own, which need as much.
func probeTemporary(name string, manifest *core.Manifest) (string, error) {
	file, err := scratch.CreateFile()
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", scratch.FullError("close a temporary file", err)
	}
	space, err := scratch.ReadRoom()
	if err != nil {
		return "", err
	}
	return judgeSpace(space, name, manifest)
}

// probeDisks compares what each file system of the stores' folders has free with what a build may write there: every
// file of the published generation once more.
func probeDisks(folders []string, manifest *core.Manifest) (string, error) {
	need := int64(needAlways)
	if manifest != nil {
		for _, segment := range manifest.Segments.All() {
			need += segment.Bytes
		}
	}
	wanted := "; a build may write about " + core.FormatSize(need)
	var text []string
	seen := map[uint64]bool{}
	for _, folder := range folders {
		space, err := scratch.RoomOf(folder)
		if err != nil {
			return "", err
		}
		free := fmt.Sprintf("%s has %s free", folder, core.FormatSize(space.Free))
		if space.Free < need {
			return "", fault.StoreFull.At("find room in", folder).Because(free + wanted).
				Advise("free disk space: a build waits while the disk is full")
		}
		if !seen[space.Device] {
			text = append(text, free)
		}
		seen[space.Device] = true
	}
	return strings.Join(text, ", ") + wanted, nil
}

func judgeSpace(space scratch.Space, name string, manifest *core.Manifest) (string, error) {
	need := temporaryNeed(manifest)
	wanted := fmt.Sprintf("a build of %s needs about %s", name, core.FormatSize(need))
	if manifest == nil {
		wanted = fmt.Sprintf("a first build needs about %s, and %s for each million passages",
			core.FormatSize(need), core.FormatSize(needCopies*needChunk*1_000_000))
	}
	kind := ""
	if space.Memory {
		kind = ", in memory (a tmpfs)"
	}
	text := fmt.Sprintf(
		"%s has %s free%s; %s, there and in each worker's", space.Folder, core.FormatSize(space.Free), kind, wanted,
	)
	if space.Free >= need {
		return text, nil
	}
	advice := "free space there, or set another folder: --data-dir of unweaver dev, worker.cache_dir or " +
		"UNWEAVER_CACHE_DIR of the other programs"
	if space.Memory {
		advice = "put the folder on a disk: worker.cache_dir or UNWEAVER_CACHE_DIR, in a container a volume"
	}
	return "", fault.StoreFull.At("find temporary room in", space.Folder).Because(text).Advise(advice)
}
