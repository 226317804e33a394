package release

import (
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// Reasons of the gate of probe questions.
const (
	ProbesFailed  = "recall"         // recall fell too far
	ProbesInvalid = "probes_invalid" // they ask for documents that there are not, or the generation before cannot be asked
)

// toldProbes are named where many are wrong.
const toldProbes = 5

// checkProbes applies the gate of probe questions: it asks them of the built generation and of the one before, and says
// why the built one must not be published, or nothing.
func (r *Run) checkProbes(
	ctx context.Context, manifest *core.Manifest, fixed run.Plan,
) (reason, detail string, err error) {
	if r.Settings.Gate.Probes == "" {
		return "", "", nil
	}
	result, err := run.MakeOnce(ctx, r.BaseRun(), run.ProbesFile, func(ctx context.Context) (core.Probed, error) {
		return r.runProbes(ctx, manifest, fixed)
	})
	if err != nil {
		return "", "", err
	}
	switch {
	case len(result.Missing) > 0:
		return ProbesInvalid, fmt.Sprintf("the probe file names documents that are in neither this generation nor its parent"+
			": %s (indexes.%s.gate.probes)", strings.Join(result.Missing, "; "), r.Settings.Index), nil
	case result.Unasked != "":
		return ProbesInvalid, "the parent generation cannot answer the probe questions: " + result.Unasked, nil
	case result.Before == nil:
		return "", "", nil
	}
	const rounding = 1e-9
	lost := *result.Before - result.Recall
	if lost <= r.Settings.Gate.MaxRecallDrop+rounding {
		return "", "", nil
	}
	return ProbesFailed, fmt.Sprintf("recall at %d of %d probe questions fell from %.3f to %.3f; the accepted drop "+
		"is %.3g (indexes.%s.gate.max_recall_drop). Worse: %s", result.Chunks, result.Asked, *result.Before, result.Recall,
		r.Settings.Gate.MaxRecallDrop, r.Settings.Index, strings.Join(result.Worse, "; ")), nil
}

// runProbes asks the questions of both generations.
func (r *Run) runProbes(ctx context.Context, manifest *core.Manifest, fixed run.Plan) (core.Probed, error) {
	out := core.Probed{Chunks: max(1, r.Settings.Retrieval.TopChunks)}
	probes, err := r.ReadProbes(ctx)
	if err != nil {
		return out, err
	}
	out.Asked = len(probes)
	sha, err := r.Index.PutManifest(ctx, manifest)
	if err != nil {
		return out, err
	}
	now, err := r.recallOf(ctx, sha, probes, out.Chunks)
	if err != nil {
		return out, err
	}
	out.Recall = now.recall
	var before recalled
	if fixed.Parent != "" {
		before, err = r.recallOf(ctx, fixed.Parent, probes, out.Chunks)
		switch {
		case err != nil && fault.KindOf(err) == fault.Transient:
			return out, err
		case artifact.IsDamage(err): // everything was made again for it, and there is nothing to compare with
		case err != nil:
			out.Unasked = err.Error()
		default:
			out.Before = &before.recall
		}
	}
	for i, probe := range probes {
		for _, document := range probe.Documents {
			if !now.knows[document] && !before.knows[document] && out.Unasked == "" && len(out.Missing) < toldProbes {
				out.Missing = append(out.Missing, fmt.Sprintf("line %d: %s", probe.Line, document))
			}
		}
		if out.Before != nil && now.each[i] < before.each[i] && len(out.Worse) < toldProbes {
			out.Worse = append(out.Worse, probe.Question)
		}
	}
	return out, nil
}

// recalled is what a generation found of the documents that probe questions ask for.
type recalled struct {
	recall float64
	each   []float64
	knows  map[string]bool // documents that are asked for and that it has
}

// recallOf asks a generation probe questions; chunks is how many of the first count.
func (r *Run) recallOf(ctx context.Context, sha string, probes []core.Question, chunks int) (recalled, error) {
	out := recalled{each: make([]float64, len(probes)), knows: map[string]bool{}}
	asker, err := r.openAsker(ctx, sha, chunks)
	if err != nil {
		return out, err
	}
	defer asker.generation.Close()
	answers, err := asker.askEach(ctx, probes)
	if err != nil {
		return out, err
	}
	for i, answer := range answers {
		if answer.err != nil {
			return out, answer.err
		}
		shown := map[string]bool{}
		for _, chunk := range answer.found.Chunks {
			shown[answer.view.Live.Key(int(chunk.Live.Document))] = true
		}
		hits := 0
		for _, document := range probes[i].Documents {
			out.knows[document] = out.knows[document] || answer.view.Live.FindDocument(document) >= 0
			if shown[document] {
				hits++
			}
		}
		out.each[i] = float64(hits) / float64(len(probes[i].Documents))
		out.recall += out.each[i] / float64(len(probes))
	}
	return out, nil
}
