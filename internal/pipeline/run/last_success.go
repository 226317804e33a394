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

// SuccessOf returns the key of when a build of an index last ended well, even if nothing changed, or an operator
// published one that a gate held. A colon is in no name of a run.
func SuccessOf(index string) string { return "success:" + index }

// ListingOf returns the key of when the last build of an index began that listed the whole corpus and ended well: what
// changed before needs no hint.
func ListingOf(index string) string { return "listing:" + index }

// NoteTime keeps a time under a key of these.
func NoteTime(ctx context.Context, runs coordination.Runs, key string, at time.Time) error {
	return runs.SetState(ctx, key, []byte(at.UTC().Format(time.RFC3339Nano)))
}

// ReadTime returns the time of a key, as far as the store of coordination remembers; else zero.
func ReadTime(ctx context.Context, runs coordination.Runs, key string) (time.Time, error) {
	raw, err := runs.ReadState(ctx, key)
	if err != nil || raw == nil {
		return time.Time{}, err
	}
	at, _ := time.Parse(time.RFC3339Nano, string(raw)) // what cannot be read is not known
	return at, nil
}
