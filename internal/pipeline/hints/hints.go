// Package hints keeps hints of changed objects and has small builds follow them. A hint may be lost, late, doubled or
// false: the store is asked what an object is now, and the next night lists everything.
//
//	hints.go      what the artifact store holds: the inbox, what builds take of it, the state
//	collector.go  collects what is in the inbox of an index, and follows the build that it began
//	follower.go   moves events of a queue into inboxes
package hints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// MostKeys is how many keys one delivery may name.
const MostKeys = 1000

// longestKey is that of S3, in bytes.
const longestKey = 1024

// Folders of hints, and the file of the state.
const (
	folderInbox = "inbox"
	folderTaken = "taken"
	fileState   = "state.json"
)

// Delivery is hints that arrived together, as the inbox keeps them: keys of objects, relative to the corpus.
type Delivery struct {
	At   time.Time `json:"at"`
	Keys []string  `json:"keys"`
}

// Put keeps a delivery until a build has followed it. One that is put again under the same name is kept once.
func Put(ctx context.Context, index artifact.Index, name string, delivery Delivery) error {
	if len(delivery.Keys) == 0 || len(delivery.Keys) > MostKeys {
		return fault.InvalidParam.At("read hints", "keys").
			Because(fmt.Sprintf("there are %d", len(delivery.Keys))).
			Advise(fmt.Sprintf("send 1 to %d keys at a time", MostKeys))
	}
	for _, key := range delivery.Keys {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	key := index.HintsKey(folderInbox, core.Sum("hints/1", name).Short(32)+".json")
	_, err := blob.WriteJSON(ctx, index.Store, key, delivery, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return nil
	}
	return err
}

// CheckKey returns an error for a key that no object of a corpus can have.
func CheckKey(key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if len(key) > longestKey || !utf8.ValidString(key) {
		return fault.InvalidParam.At("read hints", fault.QuoteName(key)).
			Because("it has more than 1,024 bytes, or is not UTF-8").Advise("send keys of objects, relative to the corpus")
	}
	return nil
}

// listInbox lists the deliveries that wait, mostDeliveries at most, and drops those that came before a listing.
func listInbox(ctx context.Context, index artifact.Index, listed time.Time) (waits []blob.Info, err error) {
	var seen []string
	for info, err := range index.Store.List(ctx, index.HintsKey(folderInbox, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		if info.Modified.Add(clockSkew).Before(listed) {
			seen = append(seen, info.Key)
		} else if waits = append(waits, info); len(waits) == mostDeliveries {
			break
		}
	}
	return waits, index.Store.DeleteAll(ctx, seen)
}

// Taken is the hints that one build follows.
type Taken struct {
	Keys  []string `json:"keys,omitempty"` // each once, in order
	All   bool     `json:"all,omitempty"`  // there are too many: the corpus is listed
	Inbox []string `json:"inbox"`          // the deliveries, by key in the store
}

// takenFile is the file of the hints of a run. It is in no scratch, which collect deletes before the run ends.
const takenFile run.File[Taken] = "taken.json"

func takenBy(index artifact.Index, generation string) run.Scratch {
	return run.Scratch{Store: index.Store, Prefix: index.HintsKey(folderTaken, generation)}
}

// Take returns the hints that a run follows: those that wait when it asks first.
func Take(ctx context.Context, r *run.Run) (Taken, error) {
	place := takenBy(r.Index, r.Generation)
	out, found, err := takenFile.Find(ctx, place)
	if err != nil || found {
		return out, err
	}
	if out, err = readInbox(ctx, r); err != nil {
		return out, err
	}
	_, err = blob.WriteJSON(ctx, r.Artifacts, place.Key(string(takenFile)), out, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return takenFile.Read(ctx, place)
	}
	return out, err
}

// readInbox reads deliveries until they name more objects than are looked up.
func readInbox(ctx context.Context, r *run.Run) (out Taken, err error) {
	waits, err := listInbox(ctx, r.Index, time.Time{})
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	objects := map[string]bool{}
	add := func(keys []string) (many bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, key := range keys {
			objects[key] = true
		}
		return len(objects) > mostObjects
	}
	out.Inbox = make([]string, len(waits))
	err = parallel.Each(ctx, len(waits), readAtOnce, func(ctx context.Context, i int) error {
		if out.Inbox[i] = waits[i].Key; add(nil) {
			return nil
		}
		var delivery Delivery
		_, err := blob.ReadJSON(ctx, r.Artifacts, waits[i].Key, &delivery)
		if artifact.IsDamage(err) { // the next night sees it
			r.Log.Warn("hints cannot be read", "index", r.Index.Name, "object", waits[i].Key)
			err = nil
		}
		add(delivery.Keys)
		return err
	})
	if out.All = add(nil); !out.All {
		out.Keys = slices.Sorted(maps.Keys(objects))
	}
	return out, err
}

// Finish drops the hints that a run followed to a good end. A listing of the corpus has seen all that came before.
func Finish(ctx context.Context, r *run.Run, report core.Report) error {
	taken, found, err := takenFile.Find(ctx, takenBy(r.Index, r.Generation))
	if err != nil || !found {
		return err
	}
	if taken.All {
		if err := run.NoteListing(ctx, r.Coordination, r.Index.Name, report.Started); err != nil {
			return err
		}
	}
	return r.Artifacts.DeleteAll(ctx, taken.Inbox)
}

// state is hints/state.json: what is going on. A worker that follows an index writes it.
type state struct {
	Current  *current      `json:"current,omitempty"`
	Waiting  *waiting      `json:"waiting,omitempty"`
	Failures int           `json:"failures,omitempty"` // one after another
	Retry    time.Time     `json:"retry,omitzero"`     // nothing begins before
	Last     *core.HintRun `json:"last,omitempty"`
	Problem  *core.Problem `json:"problem,omitempty"`
}

// current is the build that follows hints.
type current struct {
	Generation string    `json:"generation"`
	Spec       string    `json:"spec"`
	First      time.Time `json:"first"` // when the first of its hints arrived
}

// waiting says why hints wait for a night.
type waiting struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// readState reads the state; version is empty where no worker ever followed the index.
func readState(ctx context.Context, index artifact.Index) (out state, version string, err error) {
	info, err := blob.ReadJSON(ctx, index.Store, index.HintsKey("", fileState), &out)
	if fault.Is(err, fault.NotFound) {
		return state{}, "", nil
	}
	if artifact.IsDamage(err) { // hints stand in the inbox: nothing in it is worth a halt
		return state{}, info.ETag, nil
	}
	return out, info.ETag, err
}

// writeState writes the state where no one else did since it was read.
func writeState(ctx context.Context, index artifact.Index, to state, version string) (string, error) {
	cond := blob.Cond{Match: version}
	if version == "" {
		cond = blob.Cond{Absent: true}
	}
	info, err := blob.WriteJSON(ctx, index.Store, index.HintsKey("", fileState), to, cond)
	return info.ETag, err
}

// changeState changes the state; change reports whether it did.
func changeState(ctx context.Context, index artifact.Index, change func(now *state, version string) bool) error {
	for range 5 {
		now, version, err := readState(ctx, index)
		if err != nil || !change(&now, version) {
			return err
		}
		if _, err = writeState(ctx, index, now, version); !fault.Is(err, fault.Precondition) {
			return err
		}
	}
	return errors.New("the state of hints changes all the time")
}

// setProblem notes what is wrong with the queue of an index; nil: nothing is.
func setProblem(ctx context.Context, index artifact.Index, problem *core.Problem) error {
	return changeState(ctx, index, func(now *state, _ string) bool {
		same := now.Problem == problem || now.Problem != nil && problem != nil && *now.Problem == *problem
		now.Problem = problem
		return !same
	})
}

// Hold has hints wait for the next listing of the corpus, where a worker follows them: they would take back what an
// operator did.
func Hold(ctx context.Context, index artifact.Index, reason string, at time.Time) error {
	return changeState(ctx, index, func(now *state, version string) bool {
		now.Waiting = &waiting{reason, at}
		return version != ""
	})
}

// Read returns how an index stands that a worker follows; nil: none does.
func Read(ctx context.Context, index artifact.Index) (*core.Freshness, error) {
	now, version, err := readState(ctx, index)
	if err != nil || version == "" {
		return nil, err
	}
	out := &core.Freshness{Last: now.Last, Problem: now.Problem}
	for info, err := range index.Store.List(ctx, index.HintsKey(folderInbox, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		if out.Pending++; out.Oldest.IsZero() || info.Modified.Before(out.Oldest) {
			out.Oldest = info.Modified
		}
		if out.Pending == core.MostHintsShown {
			break
		}
	}
	if now.Current != nil {
		out.Run = index.Name + "/" + now.Current.Generation
	}
	if now.Waiting != nil && out.Pending > 0 {
		out.Waiting = now.Waiting.Reason
	}
	return out, nil
}
