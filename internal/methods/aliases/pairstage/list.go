package pairstage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Suggest says how pairs of names are looked for.
type Suggest struct {
	File    []byte  // what people said before: nothing that it forbids is suggested
	Classes int     // how many are compared, those with the most mentions
	Cosine  float64 // the least of a pair; 0: aliases.DefaultLimits
	Refused bool    // also list the pairs that a guard refuses
}

// ListAliases lists the names that are mapped in the current generation; with suggest it also looks for pairs of
// classes that may be one. Memory is bounded by how many classes are compared.
func ListAliases(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, store vectors.Store, suggest *Suggest,
) (core.AliasList, error) {
	out := core.AliasList{Index: index.Name, Aliases: []core.MappedName{}}
	current, _, err := index.ReadPointer(ctx)
	if err != nil {
		return out, err
	}
	if current.Generation == "" {
		return out, fault.UnknownGen.At("list aliases of", index.Name).
			Because("the index has no published generation").
			Advise("run: unweaver index CORPUS --index " + index.Name)
	}
	manifest, err := index.Manifest(ctx, current.Manifest)
	if err != nil {
		return out, err
	}
	out.Generation = manifest.Generation
	for _, name := range slices.Sorted(maps.Keys(manifest.Aliases)) {
		out.Aliases = append(out.Aliases, core.MappedName{Name: name, StandsFor: manifest.Aliases[name]})
	}
	if out.Decided, err = listDecided(ctx, cache, index, manifest); err != nil || suggest == nil {
		return out, err
	}
	file, err := aliases.ParseFile(bytes.NewReader(suggest.File))
	if mistake := new(fault.Error); errors.As(err, &mistake) {
		return out, mistake.Advise("fix the aliases file")
	} else if err != nil {
		return out, err
	}
	found, err := Find(ctx, In{
		Cache: cache, Index: index, Manifest: manifest, Vectors: store, File: file, Classes: suggest.Classes,
		Cosine: suggest.Cosine,
	})
	if err != nil {
		return out, err
	}
	out.Searched = found.Searched
	for _, list := range [][]Pair{found.Suggested, found.Refused} {
		if !suggest.Refused && len(list) > 0 && list[0].Refused != "" {
			continue
		}
		for _, one := range list {
			out.Suggested = append(out.Suggested, core.SuggestedOne{
				Name: one.A.Name, Of: one.Of.Name, Cosine: one.Cosine, Spelled: one.Spelled, Refused: one.Refused,
			})
		}
	}
	mergeSuggestions(&out)
	return out, nil
}

// mergeSuggestions joins what is suggested with what a model decided: those that are the same come first.
func mergeSuggestions(list *core.AliasList) {
	both := func(a, b string) [2]string {
		a, b = names.Key(a, false), names.Key(b, false)
		return [2]string{min(a, b), max(a, b)}
	}
	decided := map[[2]string]core.SuggestedOne{}
	for _, one := range list.Decided {
		decided[both(one.Name, one.Of)] = one
	}
	rank := func(one core.SuggestedOne) int {
		return slices.Index([]string{Same, "", Different}, one.Verdict)
	}
	for i := range list.Suggested {
		one := &list.Suggested[i]
		if of := decided[both(one.Name, one.Of)]; one.Refused == "" && of.Verdict != Undecided {
			one.Verdict, one.Why = of.Verdict, of.Why
		}
	}
	slices.SortStableFunc(list.Suggested, func(a, b core.SuggestedOne) int {
		return cmp.Or(cmp.Compare(a.Refused, b.Refused), cmp.Compare(rank(a), rank(b)))
	})
}

// listDecided returns the pairs that a model decided when a generation was built; none where none was asked.
func listDecided(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, manifest *core.Manifest,
) ([]core.SuggestedOne, error) {
	file, err := LoadFile(ctx, cache, index, manifest)
	if err != nil || file == nil {
		return nil, err
	}
	var out []core.SuggestedOne
	for _, one := range file.Decided {
		out = append(out, core.SuggestedOne{
			Name: one.Name, Of: one.Of, Cosine: one.Cosine, Spelled: one.Spelled, Verdict: one.Verdict, Why: one.Why,
		})
	}
	return out, nil
}
