// Package hints keeps hints of changed objects and has small builds follow them. A hint may be lost, late, doubled or
// false: the store is asked what an object is now, and the next night lists everything.
//
//	hints.go      what the artifact store holds: the inbox, batches, the state
//	collector.go  collects what is in the inbox of an index, and follows the build that it began
//	follower.go   moves events of a queue into inboxes
package hints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// MostKeys is how many keys one delivery may name.
const MostKeys = 1000

// longestKey is that of S3, in bytes.
const longestKey = 1024

// Folders of hints, and the file of the state.
const (
	folderInbox   = "inbox"
	folderBatches = "batches"
	fileState     = "state.json"
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

// Batch is the hints that one build follows.
type Batch struct {
	Keys  []string             `json:"keys,omitempty"` // each once, in order
	All   bool                 `json:"all,omitempty"`  // there are too many: the corpus is listed
	Inbox map[string]time.Time `json:"inbox"`          // the deliveries, by key in the store, and when they arrived
}

// ReadBatch reads the hints that a build follows.
func ReadBatch(ctx context.Context, index artifact.Index, digest string) (batch Batch, err error) {
	_, err = blob.ReadJSON(ctx, index.Store, index.HintsKey(folderBatches, digest+".json"), &batch)
	return batch, err
}

// writeBatch keeps a batch under its digest.
func writeBatch(ctx context.Context, index artifact.Index, batch Batch) (digest string, err error) {
	raw, err := json.Marshal(batch)
	if err != nil {
		return "", err
	}
	digest = core.Sum("batch/1", string(raw)).String()
	_, err = blob.Write(ctx, index.Store, index.HintsKey(folderBatches, digest+".json"), raw, blob.Cond{})
	return digest, err
}

// state is hints/state.json: what is going on.
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
	Batch      string    `json:"batch"`
	Keys       int       `json:"keys"`
	First      time.Time `json:"first"` // when the first of its hints arrived
}

// waiting says why hints wait for a night.
type waiting struct {
	Reason string    `json:"reason"`
	Run    string    `json:"run,omitempty"`
	Since  time.Time `json:"since"`
}

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

// writeState writes the state where nobody else did since it was read.
func writeState(ctx context.Context, index artifact.Index, to state, version string) (string, error) {
	cond := blob.Cond{Match: version}
	if version == "" {
		cond = blob.Cond{Absent: true}
	}
	info, err := blob.WriteJSON(ctx, index.Store, index.HintsKey("", fileState), to, cond)
	return info.ETag, err
}

// setProblem notes what is wrong with the queue of an index; nil: nothing is.
func setProblem(ctx context.Context, index artifact.Index, problem *core.Problem) error {
	for range 5 {
		now, version, err := readState(ctx, index)
		if err != nil || now.Problem == nil && problem == nil || now.Problem != nil && problem != nil &&
			*now.Problem == *problem {
			return err
		}
		now.Problem = problem
		if _, err = writeState(ctx, index, now, version); !fault.Is(err, fault.Precondition) {
			return err
		}
	}
	return errors.New("the state of hints changes all the time")
}

// Read returns how an index stands that follows hints; nil: it never had one.
func Read(ctx context.Context, index artifact.Index) (*core.Freshness, error) {
	out, any := &core.Freshness{}, false
	prefix := index.HintsKey(folderInbox, "") + "/"
	for info, err := range index.Store.List(ctx, index.HintsKey("", "")+"/", "") {
		if err != nil {
			return nil, err
		}
		any = true
		if strings.HasPrefix(info.Key, prefix) {
			out.Pending++
			if out.Oldest.IsZero() || info.Modified.Before(out.Oldest) {
				out.Oldest = info.Modified
			}
		}
	}
	if !any {
		return nil, nil //nolint:nilnil // none is an answer
	}
	now, _, err := readState(ctx, index)
	out.Last, out.Problem = now.Last, now.Problem
	if now.Current != nil {
		out.Run = index.Name + "/" + now.Current.Generation
	}
	if now.Waiting != nil && out.Pending > 0 {
		out.Waiting = now.Waiting.Reason
	}
	return out, err
}
