package evalcmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/eval"
)

// shareInfix stands between the name of an evaluation's index and the share, in hundredths, of another beside it.
const shareInfix = "-share-"

// evalShares reads --shares, and counts what each sends to the model. The share 1 is the index itself.
func evalShares(given []string, dataset *eval.Dataset, spec core.Spec) ([]eval.Share, error) {
	if len(given) == 0 {
		return nil, nil
	}
	refused := func(why, hint string) ([]eval.Share, error) {
		return nil, fault.Usage.At("read --shares", fmt.Sprint(given)).Because(why).Advise(hint)
	}
	switch {
	case spec.ChatOf(core.RoleExtraction).Provider == "builtin":
		return refused("extraction by rules costs nothing", "use a dataset with a recording, or a model")
	case spec.ExtractionShare() != 1:
		return refused("the index sets extraction.share", "remove extraction.share")
	case spec.Chunking.Strategy != "document":
		return refused("its chunks are not the passages", "use a folder with corpus.jsonl, and chunking.strategy document")
	}
	var shares []float64
	for _, text := range given {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return refused(text+" is not a number from 0 to 1", "such as --shares 0,0.1,0.3,0.5,1")
		}
		shares = append(shares, share)
	}
	slices.Sort(shares)
	var out []eval.Share
	for _, share := range slices.Compact(shares) {
		index := spec.Index
		if share < 1 {
			index += shareInfix + strconv.FormatFloat(share*100, 'f', 0, 64)
		}
		if len(out) > 0 && out[len(out)-1].Index == index {
			return refused("two shares are equal to the hundredth", "choose others")
		}
		out = append(out, dataset.ShareOf(share, index))
	}
	return out, nil
}

// ofShare returns the configuration of the index of a share.
func ofShare(spec core.Spec, share eval.Share) core.Spec {
	if spec.Index = share.Index; share.Share < 1 {
		spec.Extraction = &core.Extraction{Share: share.Share}
	}
	return spec
}

// buildShares builds the indexes of shares that are not the index itself.
func (a app) buildShares(
	ctx context.Context, controller control.Control, dataset *eval.Dataset, spec core.Spec, shares []eval.Share,
) error {
	for _, share := range shares {
		if share.Index == spec.Index {
			continue
		}
		if _, err := a.evalBuild(ctx, controller, dataset, ofShare(spec, share)); err != nil {
			return err
		}
	}
	return nil
}

// ofShares returns the systems once more, of the index of each share.
func ofShares(systems []eval.System, shares []eval.Share, base string) []eval.System {
	var out []eval.System
	for _, share := range shares {
		for _, system := range systems {
			if share.Index != base && !system.IsVariant() {
				system.Index = share.Index
				out = append(out, system)
			}
		}
	}
	return out
}
