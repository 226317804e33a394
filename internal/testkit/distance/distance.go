// Package distance puts stores as far away as real ones are, for tests and benchmarks: every request waits before it is
// answered and is counted, by its kind and by the place of its key, and the longest chain of requests that followed one
// another is known. Below testing/synctest the wait costs no time, and what passes on its clock is the chain.
package distance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kinds of requests to a blob store. PutIf is a write with a condition. DeleteAll is one request for up to 1,000 keys,
// and List is one for up to 1,000 objects.
const (
	Get       = "get"
	Head      = "head"
	Put       = "put"
	PutIf     = "put-if"
	List      = "list"
	Delete    = "delete"
	DeleteAll = "delete-all"
)

// perRequest is how many objects a listing or a deletion of many takes in one request, as with S3.
const perRequest = 1000

// Requests counts requests to any number of stores. It is safe for concurrent use.
type Requests struct {
	wait time.Duration

	mu      sync.Mutex
	counts  map[Place]int64
	longest int // of the requests that are over
}

// Place is where requests of a kind go.
type Place struct{ Kind, Prefix string }

// New counts requests that take wait each.
func New(wait time.Duration) *Requests {
	return &Requests{wait: wait, counts: map[Place]int64{}}
}

// request counts a request and waits for its answer to be due.
func (r *Requests) request(ctx context.Context, kind, prefix string) error {
	r.mu.Lock()
	r.counts[Place{kind, prefix}]++
	depth := r.longest + 1
	r.mu.Unlock()
	if r.wait > 0 {
		timer := time.NewTimer(r.wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = max(r.longest, depth)
	return nil
}

// Counted is what was asked for since a moment.
type Counted struct {
	Counts map[Place]int64
	Chain  int // the longest chain of requests that followed one another
}

// Take gives what was counted since the last Take, or since the beginning.
func (r *Requests) Take() Counted {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Counted{r.counts, r.longest}
	r.counts, r.longest = map[Place]int64{}, 0
	return out
}

// Of sums the requests of the kinds given, all for none, at places that start with prefix.
func (c Counted) Of(prefix string, kinds ...string) int64 {
	total := int64(0)
	for place, count := range c.Counts {
		if strings.HasPrefix(place.Prefix, prefix) && (len(kinds) == 0 || slices.Contains(kinds, place.Kind)) {
			total += count
		}
	}
	return total
}

// String returns a table of the counts, the largest first.
func (c Counted) String() string {
	places := make([]Place, 0, len(c.Counts))
	for place := range c.Counts {
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b Place) int {
		if c.Counts[a] != c.Counts[b] {
			return int(c.Counts[b] - c.Counts[a])
		}
		return strings.Compare(a.Prefix+a.Kind, b.Prefix+b.Kind)
	})
	var out strings.Builder
	for _, place := range places {
		fmt.Fprintf(&out, "%8d %-10s %s\n", c.Counts[place], place.Kind, place.Prefix)
	}
	fmt.Fprintf(&out, "%8d requests, the longest chain %d\n", c.Of(""), c.Chain)
	return out.String()
}

// PrefixOf returns the place of a blob key: ledger/<task>/<kind>, else what an index has there, as index/segments;
// files of a run without its name and their numbers, as index/runs/extract.
func PrefixOf(key string) string {
	parts := strings.Split(key, "/")
	last := parts[len(parts)-1]
	if i := strings.IndexAny(last, ".0123456789"); i >= 0 {
		last = strings.TrimRight(last[:i], "-")
	}
	switch {
	case parts[0] == "ledger":
		return strings.Join(parts[:min(3, len(parts))], "/")
	case len(parts) == 1:
		return parts[0]
	case parts[1] == "runs" && len(parts) > 2:
		return "index/runs/" + last
	case parts[1] == "generations" && len(parts) > 2:
		return "index/generations/" + last
	}
	return "index/" + parts[1]
}
