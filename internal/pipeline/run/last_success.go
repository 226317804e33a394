package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// ReadState returns what the newest record of a run says, or nil where there is none that can be read.
func ReadState(ctx context.Context, runs coordination.Runs, run string) (*core.RunState, error) {
	raw, err := runs.ReadState(ctx, run)
	if err != nil || raw == nil {
		return nil, err
	}
	state := &core.RunState{}
	if json.Unmarshal(raw, state) != nil {
		return nil, nil
	}
	return state, nil
}

// successKey returns the key in the state of runs of when an index was last built. A colon is in no name of a run.
func successKey(index string) string { return "success:" + index }

// NoteSuccess notes that a build of the index ended well, even if nothing changed, or that an operator published
// one that a gate held.
func NoteSuccess(ctx context.Context, runs coordination.Runs, index string, at time.Time) error {
	return runs.SetState(ctx, successKey(index), []byte(at.UTC().Format(time.RFC3339Nano)))
}

// LastSuccess returns when a build of the index last ended well, as far as the store of coordination remembers; else
// zero.
func LastSuccess(ctx context.Context, runs coordination.Runs, index string) (time.Time, error) {
	return readTime(ctx, runs, successKey(index))
}

// listingKey returns the key of when the last build began that listed the whole corpus and ended well.
func listingKey(index string) string { return "listing:" + index }

// NoteListing notes that a build which began then has seen the whole corpus: what changed before needs no hint.
func NoteListing(ctx context.Context, runs coordination.Runs, index string, began time.Time) error {
	return runs.SetState(ctx, listingKey(index), []byte(began.UTC().Format(time.RFC3339Nano)))
}

// LastListing returns what NoteListing noted last; else zero.
func LastListing(ctx context.Context, runs coordination.Runs, index string) (time.Time, error) {
	return readTime(ctx, runs, listingKey(index))
}

func readTime(ctx context.Context, runs coordination.Runs, key string) (time.Time, error) {
	raw, err := runs.ReadState(ctx, key)
	if err != nil || raw == nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, string(raw))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // what cannot be read is not known
	}
	return at, nil
}
