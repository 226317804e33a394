package hints

import (
	"context"
	"crypto/rand"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/events"
)

// Corpus is an index that follows a queue.
type Corpus struct {
	Index artifact.Index
	URI   string // s3://bucket/prefix
}

// Follower moves events of a queue into the inboxes of indexes. A message is deleted once what it says is kept. One
// that is no event is left to the redrive policy of the queue.
type Follower struct {
	Queue   *events.Queue
	Corpora []Corpus
	Log     *slog.Logger
}

// Advance receives messages once and moves them. What fails is shown in the status of the indexes.
func (f *Follower) Advance(ctx context.Context) error {
	err := f.moveMessages(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var problem *core.Problem
	if err != nil {
		problem = &core.Problem{Code: string(fault.CodeOf(err)), Object: f.Queue.URI, Detail: err.Error()}
	}
	for _, corpus := range f.Corpora {
		failed := changeState(ctx, corpus.Index, func(now *state) error {
			if reflect.DeepEqual(now.Problem, problem) {
				return blob.ErrSame
			}
			now.Problem = problem
			return nil
		})
		if err == nil {
			err = failed
		}
	}
	return err
}

func (f *Follower) moveMessages(ctx context.Context) error {
	got, err := f.Queue.Receive(ctx)
	if err != nil {
		return err
	}
	if got.Strange > 0 {
		f.Log.Warn("messages left in the queue: they are no events of S3", "queue", f.Queue.URI, "messages", got.Strange)
	}
	for _, corpus := range f.Corpora {
		for keys := range slices.Chunk(corpus.findKeys(got.Objects), MostKeys) {
			if err := Put(ctx, corpus.Index, rand.Text(), keys); err != nil {
				return err
			}
		}
	}
	return f.Queue.Delete(ctx, got.Receipts)
}

// findKeys returns the keys of the objects that are in the corpus, each once. Markers of folders, and names that no
// document may have, are not.
func (c Corpus) findKeys(objects []string) (keys []string) {
	for _, object := range objects {
		key, within := strings.CutPrefix(object, strings.TrimRight(c.URI, "/")+"/")
		if within && !strings.HasSuffix(key, "/") && CheckKey(key) == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
