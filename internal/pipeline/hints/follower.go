package hints

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
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
		problem = &core.Problem{Code: string(fault.CodeOf(err)), Object: f.Queue.Location(), Detail: err.Error()}
	}
	for _, corpus := range f.Corpora {
		if failed := setProblem(ctx, corpus.Index, problem); err == nil {
			err = failed
		}
	}
	return err
}

func (f *Follower) moveMessages(ctx context.Context) error {
	messages, err := f.Queue.Receive(ctx)
	if err != nil {
		return err
	}
	var kept []events.Message
	keys := make([][]string, len(f.Corpora))
	for _, message := range messages {
		objects, err := events.ParseS3(message.Body)
		if err != nil {
			f.Log.Warn("message left in the queue", "queue", f.Queue.Location(), "error", err.Error())
			continue
		}
		kept = append(kept, message)
		for i, corpus := range f.Corpora {
			keys[i] = append(keys[i], corpus.findKeys(objects)...)
		}
	}
	for i, corpus := range f.Corpora {
		slices.Sort(keys[i])
		for part := range slices.Chunk(slices.Compact(keys[i]), MostKeys) {
			name := f.Queue.Location() + time.Now().UTC().Format(time.RFC3339Nano) + strings.Join(part, "\x00")
			if err := Put(ctx, corpus.Index, name, part); err != nil {
				return err
			}
		}
	}
	return f.Queue.Delete(ctx, kept)
}

// findKeys returns the keys of the objects that are in the corpus. Markers of folders, and names that no document may
// have, are not.
func (c Corpus) findKeys(objects []string) (keys []string) {
	for _, object := range objects {
		key, within := strings.CutPrefix(object, strings.TrimRight(c.URI, "/")+"/")
		if within && !strings.HasSuffix(key, "/") && CheckKey(key) == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
