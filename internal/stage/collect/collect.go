// Package collect removes what nothing names any more: scratch of finished runs, generations beyond the kept ones,
// and segments and collections that no kept manifest names. It condemns first and deletes at least a grace period
// later, so a reader that opened a generation has time to leave it.
package collect

import (
	"context"
	"sort"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// In is what the stage works on; the caller holds the lease.
type In struct {
	Artifacts  artifact.Index
	Keep       int
	Grace      time.Duration
	Scratch    string // of this run, deleted at once
	Refs       map[string]corpus.GenerationRef
	Current    corpus.Pointer
	Leased     map[string]bool // generations that readers use
	Vectors    vectors.Store
	Now        time.Time
	CollPrefix string // of the index's collections
	OnProgress func(done int64)
}

// Result counts.
type Result struct {
	Generations int64 `json:"generations"`
	Deleted     int64 `json:"deleted"`
	Condemned   int64 `json:"condemned"`
}

// Run does the stage.
func Run(ctx context.Context, in In) (Result, error) {
	var res Result
	if err := deleteAll(ctx, in, in.Scratch+"/"); err != nil {
		return res, err
	}
	kept := keptGenerations(in)
	named := map[string]bool{}
	colls := map[string]bool{}
	for gen, ref := range in.Refs {
		if !kept[gen] {
			if err := deleteAll(ctx, in, in.Artifacts.GenerationKey(gen, "")+"/"); err != nil {
				return res, err
			}
			res.Generations++
			continue
		}
		manifest, err := in.Artifacts.Manifest(ctx, ref.Manifest)
		if err != nil {
			return res, err
		}
		named[ref.Manifest] = true
		for _, s := range manifest.Segments.All() {
			named[s.SHA256] = true
		}
		colls[manifest.Collections.Classes], colls[manifest.Collections.Chunks] = true, true
	}
	dead, err := unnamed(ctx, in, named, colls)
	if err != nil {
		return res, err
	}
	err = sweep(ctx, in, dead, &res)
	return res, err
}

// keptGenerations: the newest Keep published, the current one, held ones newer than it, and those that readers use.
func keptGenerations(in In) map[string]bool {
	kept := map[string]bool{in.Current.Generation: true}
	var pub []string
	for g, ref := range in.Refs {
		if in.Leased[g] || (ref.State == "held" && ref.Seq > in.Current.Seq) {
			kept[g] = true
		}
		if ref.State == "published" {
			pub = append(pub, g)
		}
	}
	sort.Slice(pub, func(i, j int) bool { return in.Refs[pub[i]].Seq > in.Refs[pub[j]].Seq })
	for _, g := range pub[:min(max(1, in.Keep), len(pub))] {
		kept[g] = true
	}
	return kept
}

func deleteAll(ctx context.Context, in In, prefix string) error {
	var keys []string
	for info, err := range in.Artifacts.Store.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	for i, k := range keys {
		if err := in.Artifacts.Store.Delete(ctx, k); err != nil {
			return err
		}
		in.OnProgress(int64(i))
	}
	return nil
}

// unnamed lists segments and collections that no kept manifest names.
func unnamed(ctx context.Context, in In, named, colls map[string]bool) ([]string, error) {
	var dead []string
	prefix := in.Artifacts.SegmentKey("") + "/"
	for info, err := range in.Artifacts.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		if sha := strings.TrimPrefix(info.Key, prefix); !named[sha] {
			dead = append(dead, "segment:"+sha)
		}
	}
	all, err := in.Vectors.List(ctx, in.CollPrefix)
	for _, c := range all {
		if !colls[c] {
			dead = append(dead, "collection:"+c)
		}
	}
	return dead, err
}

// sweep deletes what was condemned at least a grace period ago and condemns the rest.
func sweep(ctx context.Context, in In, dead []string, res *Result) error {
	key := in.Artifacts.Name + "/condemned.json"
	was := map[string]time.Time{}
	if _, err := blob.ReadJSON(ctx, in.Artifacts.Store, key, &was); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	next := map[string]time.Time{}
	for i, d := range dead {
		at, ok := was[d]
		if !ok {
			at = in.Now
		}
		if !ok || in.Now.Sub(at) < in.Grace {
			next[d] = at
			res.Condemned++
			continue
		}
		kind, name, _ := strings.Cut(d, ":")
		var err error
		if kind == "segment" {
			err = in.Artifacts.Store.Delete(ctx, in.Artifacts.SegmentKey(name))
		} else {
			err = in.Vectors.Drop(ctx, name)
		}
		if err != nil {
			return err
		}
		res.Deleted++
		in.OnProgress(int64(i))
	}
	if len(was) == 0 && len(next) == 0 {
		return nil
	}
	_, err := blob.WriteJSON(ctx, in.Artifacts.Store, key, next, blob.Cond{})
	return err
}
