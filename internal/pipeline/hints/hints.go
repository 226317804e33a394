// Package hints keeps hints of changed objects and has small builds follow them. A hint may be lost, late, doubled or
// false: the store is asked what an object is now, and the next night lists everything.
//
//	hints.go      what the artifact store holds: the inbox, and the state
//	collector.go  collects what is in the inbox of an index, and follows the build that it began
//	follower.go   moves events of a queue into inboxes
package hints

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// MostKeys is how many keys one delivery may name.
const MostKeys = 1000

// inbox is the folder of hints that no build has followed yet.
const inbox = "inbox"

// Put keeps hints that arrived together until a build has followed them: keys of objects, relative to the corpus. What
// is put again under the same name is kept once.
func Put(ctx context.Context, index artifact.Index, name string, keys []string) error {
	if len(keys) == 0 || len(keys) > MostKeys {
		return fault.InvalidParam.At("read hints", "keys").
			Because(fmt.Sprintf("there are %d", len(keys))).
			Advise(fmt.Sprintf("send 1 to %d keys at a time", MostKeys))
	}
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	key := index.HintsKey(inbox, core.Sum("hints/1", name).Short(32)+".json")
	_, err := blob.WriteJSON(ctx, index.Store, key, keys, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return nil
	}
	return err
}

// CheckRoom returns fault.RateLimited where so many hints of an index wait that its next build lists the corpus anyway.
func CheckRoom(ctx context.Context, index artifact.Index) error {
	waiting := 0
	for _, err := range index.Store.List(ctx, index.HintsKey(inbox, "")+"/", "") {
		if err != nil {
			return err
		}
		if waiting++; waiting == core.MostDeliveries {
			return fault.RateLimited.At("keep hints of", index.Name).
				Because(fmt.Sprintf("%d deliveries wait for a build", waiting)).
				Advise("send them again later; the next build lists the corpus, and a paused run holds it up: unweaver status " +
					index.Name)
		}
	}
	return nil
}

// CheckKey returns an error for a key that no object of a corpus can have.
func CheckKey(key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if len(key) > 1024 { // the longest of S3
		return fault.InvalidParam.At("read hints", fault.QuoteName(key)).
			Because("it has more than 1,024 bytes").Advise("send keys of objects, relative to the corpus")
	}
	return nil
}

// listInbox lists the deliveries that wait, core.MostDeliveries at most, and drops those that came before a listing of
// the corpus.
func listInbox(ctx context.Context, index artifact.Index, listed time.Time) (waits []blob.Info, err error) {
	var seen []string
	for info, err := range index.Store.List(ctx, index.HintsKey(inbox, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		if info.Modified.Add(clockSkew).Before(listed) {
			seen = append(seen, info.Key)
		} else if waits = append(waits, info); len(waits) == core.MostDeliveries {
			break
		}
	}
	return waits, index.Store.DeleteAll(ctx, seen)
}

// ReadKeys returns the objects that a build of hints looks at, each once; nil: it lists the corpus, as there are too
// many, or hints that cannot be read.
func ReadKeys(ctx context.Context, r *run.Run) ([]string, error) {
	now, _, err := readState(ctx, r.Index)
	if err != nil || now.Build == nil || now.Build.Generation != r.Generation || now.Build.isOfAll() {
		return nil, err
	}
	deliveries := make([][]string, len(now.Build.Inbox))
	err = parallel.Each(ctx, len(deliveries), readAtOnce, func(ctx context.Context, i int) error {
		_, err := blob.ReadJSON(ctx, r.Artifacts, now.Build.Inbox[i], &deliveries[i])
		return err
	})
	if artifact.IsDamage(err) || fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	keys := slices.Concat(deliveries...)
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) > mostObjects {
		return nil, err
	}
	return keys, err
}

// state is hints/state.json: what is going on. A worker that follows an index writes it.
type state struct {
	core.Freshness           // as it is shown, but for what is pending
	Build          *build    `json:"build,omitempty"` // it follows hints
	Since          time.Time `json:"since,omitzero"`  // hints wait for a night: see Freshness.Waiting
	Retry          time.Time `json:"retry,omitzero"`  // nothing begins before

	followed bool // it is there: a worker followed the index
}

// build is a build that follows hints.
type build struct {
	Generation string    `json:"generation"`
	Spec       string    `json:"spec"`
	First      time.Time `json:"first"` // when the first of its hints arrived
	Inbox      []string  `json:"inbox"` // the deliveries, by key in the store
}

// isOfAll reports whether there may be more hints: the build lists the corpus.
func (b build) isOfAll() bool { return len(b.Inbox) == core.MostDeliveries }

// readState returns the state; zero where no worker ever followed the index.
func readState(ctx context.Context, index artifact.Index) (out state, etag string, err error) {
	info, err := blob.ReadJSON(ctx, index.Store, index.HintsKey("", "state.json"), &out)
	if fault.Is(err, fault.NotFound) {
		return state{}, "", nil
	}
	if artifact.IsDamage(err) { // hints stand in the inbox: nothing in it is worth a halt
		out, err = state{}, nil
	}
	out.followed = true
	return out, info.ETag, err
}

// changeState changes the state of an index, where change does not return blob.ErrSame.
func changeState(ctx context.Context, index artifact.Index, change func(now *state) error) error {
	read := func(ctx context.Context) (state, string, error) { return readState(ctx, index) }
	return blob.ChangeJSON(ctx, index.Store, index.HintsKey("", "state.json"), read, change)
}

// Hold has hints wait for the next listing of the corpus, where a worker follows them: they would take back what an
// operator did.
func Hold(ctx context.Context, index artifact.Index, reason string, at time.Time) error {
	return changeState(ctx, index, func(now *state) error {
		if !now.followed {
			return blob.ErrSame
		}
		now.Waiting, now.Since = reason, at
		return nil
	})
}

// Read returns how an index stands that a worker follows; nil: none does.
func Read(ctx context.Context, index artifact.Index) (*core.Freshness, error) {
	now, _, err := readState(ctx, index)
	if err != nil || !now.followed {
		return nil, err
	}
	waits, err := listInbox(ctx, index, time.Time{})
	if now.Pending = len(waits); now.Pending == 0 {
		now.Waiting = ""
	}
	return &now.Freshness, err
}
