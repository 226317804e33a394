package purges

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Plan says what a purge of documents would do. It writes nothing.
func Plan(ctx context.Context, index artifact.Index, documents []string) (core.PurgePlan, error) {
	plan := core.PurgePlan{Index: index.Name, Entries: map[string]int64{}, Drops: []core.PurgeGeneration{}}
	wanted := SetOf(index.Name, documents)
	traces, err := Gather(ctx, index, wanted, func() {})
	if err != nil {
		return plan, err
	}
	slices.Sort(traces.parts)
	for i, document := range slices.Concat(documents, slices.Compact(traces.parts)) {
		digest := core.PurgedKey(index.Name, document)
		chunks, known := traces.found[digest]
		plan.Documents = append(plan.Documents, core.PurgeDocument{
			Key: document, Digest: digest, Known: known, Chunks: chunks, Attached: i >= len(documents),
			Rows: traces.rows[document],
		})
	}
	current, _, err := index.ReadPointer(ctx)
	if err != nil {
		return plan, err
	}
	plan.Current = current.Generation
	if plan.Drops, err = listPurgeGenerations(ctx, index, traces, current); err != nil {
		return plan, err
	}
	plan.Classes = int64(len(traces.Classes))
	plan.Shortenings = int64(len(traces.Keys[ledger.Shorten]))
	for task, keys := range traces.Keys {
		plan.Entries[task] = int64(len(keys))
	}
	all, err := List(ctx, index)
	if err != nil {
		return plan, err
	}
	for _, one := range all {
		if one.State == core.PurgePending && slices.ContainsFunc(one.Documents, func(digest core.Digest) bool {
			return wanted.Keys[digest]
		}) {
			plan.Pending = append(plan.Pending, one.ID)
		}
	}
	plan.Probes, err = ListProbeFiles(ctx, index, wanted)
	for i, key := range plan.Probes {
		plan.Probes[i] = index.Store.Location(key)
	}
	return plan, err
}

// WishOf returns the purge of the documents of a plan.
func WishOf(plan core.PurgePlan) (wish core.Purge) {
	for _, document := range plan.Documents {
		if wish.Documents = append(wish.Documents, document.Digest); document.Attached {
			wish.Attached = append(wish.Attached, document.Digest)
		}
	}
	return wish
}

// listPurgeGenerations returns the generations that hold something, the newest first.
func listPurgeGenerations(
	ctx context.Context, index artifact.Index, traces *Traces, current core.Pointer,
) ([]core.PurgeGeneration, error) {
	refs, err := index.ListByName(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := index.Tags(ctx)
	if err != nil {
		return nil, err
	}
	out := []core.PurgeGeneration{}
	for generation := range traces.Holders {
		slices.Sort(tags[generation])
		out = append(out, core.PurgeGeneration{
			Generation: generation, State: refs[generation].State, Tags: tags[generation],
			Current: generation == current.Generation,
		})
	}
	slices.SortFunc(out, func(a, b core.PurgeGeneration) int {
		return int(refs[b.Generation].Seq - refs[a.Generation].Seq)
	})
	return out, nil
}

// ListProbeFiles returns the keys of the stored files of questions that expect one of the documents.
func ListProbeFiles(ctx context.Context, index artifact.Index, documents Set) (out []string, err error) {
	for info, err := range index.Store.List(ctx, index.SpecsPrefix(), "") {
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(info.Key, artifact.ProbesSuffix) {
			continue
		}
		raw, _, err := blob.Read(ctx, index.Store, info.Key)
		if err != nil {
			return nil, err
		}
		questions, err := core.ReadProbes(bytes.NewReader(raw), false)
		if err == nil && slices.ContainsFunc(questions, func(probe core.Question) bool {
			return slices.ContainsFunc(probe.Documents, documents.Has)
		}) {
			out = append(out, info.Key)
		}
	}
	return out, nil
}
