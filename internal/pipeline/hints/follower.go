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
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/events"
)

// Corpus is an index that follows a queue.
type Corpus struct {
	Index          artifact.Index
	Bucket, Prefix string // the prefix with its final slash; may be empty
}

// Follower moves events of a queue into the inboxes of indexes. A message is deleted once what it says is kept. One
// that is no event is left to the redrive policy of the queue.
type Follower struct {
	Queue   events.Queue
	Corpora []Corpus
	Log     *slog.Logger
}

// Times between requests that fail.
const (
	shortestPause = 2 * time.Second
	longestPause  = 5 * time.Minute
)

// Follow goes on until ctx is done. What fails is tried again, ever less often, and shown in the status of the indexes.
func (f *Follower) Follow(ctx context.Context) {
	pause := shortestPause
	for ctx.Err() == nil {
		err := f.MoveOnce(ctx)
		if err == nil {
			pause = shortestPause
			continue
		}
		if ctx.Err() != nil {
			return
		}
		f.Log.Warn("events not received", "queue", f.Queue.Location(), "code", string(fault.CodeOf(err)),
			"error", err.Error())
		f.note(ctx, &core.Problem{Code: string(fault.CodeOf(err)), Object: f.Queue.Location(), Detail: err.Error()})
		_ = retry.Wait(ctx, pause) // the loop sees that it ended
		pause = min(2*pause, longestPause)
	}
}

// note shows a problem of the queue in the status of its indexes, or that it is over.
func (f *Follower) note(ctx context.Context, problem *core.Problem) {
	for _, corpus := range f.Corpora {
		if err := setProblem(ctx, corpus.Index, problem); err != nil && ctx.Err() == nil {
			f.Log.Warn("state of hints not written", "index", corpus.Index.Name, "error", err.Error())
		}
	}
}

// MoveOnce receives messages once, keeps what they say and deletes them.
func (f *Follower) MoveOnce(ctx context.Context) error {
	messages, err := f.Queue.Receive(ctx)
	if err != nil {
		return err
	}
	f.note(ctx, nil)
	var kept []events.Message
	keys := make([][]string, len(f.Corpora))
	for _, message := range messages {
		objects, err := events.ParseS3(message.Body)
		if err != nil {
			f.Log.Warn("message left in the queue", "queue", f.Queue.Location(), "error", err.Error())
			continue
		}
		kept = append(kept, message)
		for _, object := range objects {
			f.addObject(keys, object)
		}
	}
	for i, corpus := range f.Corpora {
		slices.Sort(keys[i])
		for part := range slices.Chunk(slices.Compact(keys[i]), MostKeys) {
			at := time.Now().UTC()
			name := f.Queue.Location() + at.Format(time.RFC3339Nano) + strings.Join(part, "\x00")
			if err := Put(ctx, corpus.Index, name, Delivery{At: at, Keys: part}); err != nil {
				return err
			}
		}
	}
	return f.Queue.Delete(ctx, kept)
}

// addObject adds an object to the keys of the indexes that it is in the corpus of. Markers of folders, and names that
// no document may have, are in none.
func (f *Follower) addObject(keys [][]string, object events.Object) {
	for i, corpus := range f.Corpora {
		key, within := strings.CutPrefix(object.Key, corpus.Prefix)
		if object.Bucket != corpus.Bucket || !within || key == "" || strings.HasSuffix(key, "/") || CheckKey(key) != nil {
			continue
		}
		keys[i] = append(keys[i], key)
	}
}
