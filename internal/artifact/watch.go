package artifact

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

func (x Index) watchListKey() string { return x.joinKey("watch", "questions.json") }

// ListQuestions returns the standing questions of the index, in the order in which they were added.
func (x Index) ListQuestions(ctx context.Context) ([]core.Question, error) {
	list, _, err := x.readQuestions(ctx)
	return list, err
}

func (x Index) readQuestions(ctx context.Context) (list []core.Question, etag string, err error) {
	info, err := blob.ReadJSON(ctx, x.Store, x.watchListKey(), &list)
	if fault.Is(err, fault.NotFound) {
		return []core.Question{}, "", nil
	}
	return list, info.ETag, err
}

// DeleteQuestions removes all standing questions of the index, also those that cannot be read.
func (x Index) DeleteQuestions(ctx context.Context) error {
	return x.Store.Delete(ctx, x.watchListKey())
}

// ChangeQuestions applies f to the standing questions until no other process changed them meanwhile.
func (x Index) ChangeQuestions(ctx context.Context, f func([]core.Question) ([]core.Question, error)) error {
	return blob.ChangeJSON(ctx, x.Store, x.watchListKey(), x.readQuestions, func(list *[]core.Question) (err error) {
		*list, err = f(*list)
		return err
	})
}

// LastWatch is how far the standing questions of an index came.
type LastWatch struct {
	Manifest string        `json:"manifest"`       // of the generation that answered last: the next night compares with it
	Keys     []core.Digest `json:"keys,omitempty"` // of vectors of questions in the ledger, which keeps them

	// Behind are the questions that it did not answer, by their ids, with the manifest that they are compared with.
	Behind map[string]string `json:"behind,omitempty"`
}

func (x Index) lastWatchKey() string { return x.joinKey("watch", "last.json") }

// ReadLastWatch returns how far the standing questions came; zero: none was ever asked, or that cannot be read.
func (x Index) ReadLastWatch(ctx context.Context) (last LastWatch, err error) {
	_, err = blob.ReadJSON(ctx, x.Store, x.lastWatchKey(), &last)
	if fault.Is(err, fault.NotFound) || IsDamage(err) {
		return LastWatch{}, nil
	}
	return last, err
}

// WriteLastWatch records how far the standing questions came.
func (x Index) WriteLastWatch(ctx context.Context, last LastWatch) error {
	_, err := blob.WriteJSON(ctx, x.Store, x.lastWatchKey(), last, blob.Cond{})
	return err
}

// WatchedName is the name, in the folder of a generation, of all changes that its night found by standing questions.
const WatchedName = "watched.jsonl"
