package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Reasons of the gate of probe questions.
const (
	ProbesFailed  = "recall"         // recall fell too far
	ProbesInvalid = "probes_invalid" // they ask for documents that there are not, or the generation before cannot be asked
)

const (
	probesAtOnce = 4
	toldProbes   = 5 // are named where many are wrong
	// A request for vectors of questions has at most so many, and so many bytes of them.
	probeBatch, probeBatchBytes = 64, 60_000
)

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
	reason, detail = judgeProbes(result, r.Settings)
	return reason, detail, nil
}

// judgeProbes says what a result of probe questions means.
func judgeProbes(result core.Probed, settings core.Spec) (reason, detail string) {
	switch {
	case len(result.Missing) > 0:
		return ProbesInvalid, fmt.Sprintf("the probe file names documents that are in neither this generation nor its parent"+
			": %s (indexes.%s.gate.probes)", strings.Join(result.Missing, "; "), settings.Index)
	case result.Unasked != "":
		return ProbesInvalid, "the parent generation cannot answer the probe questions: " + result.Unasked
	case result.Before == nil:
		return "", ""
	}
	const rounding = 1e-9
	lost := *result.Before - result.Recall
	if lost <= settings.Gate.MaxRecallDrop+rounding {
		return "", ""
	}
	return ProbesFailed, fmt.Sprintf("recall at %d of %d probe questions fell from %.3f to %.3f; the accepted drop "+
		"is %.3g (indexes.%s.gate.max_recall_drop). Worse: %s", result.Chunks, result.Asked, *result.Before, result.Recall,
		settings.Gate.MaxRecallDrop, settings.Index, strings.Join(result.Worse, "; "))
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
	now, err := r.askGeneration(ctx, sha, probes, out.Chunks)
	if err != nil {
		return out, err
	}
	out.Recall = now.recall
	var before answered
	if fixed.Parent != "" {
		before, err = r.askGeneration(ctx, fixed.Parent, probes, out.Chunks)
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

// answered is what a generation made of the probe questions.
type answered struct {
	recall float64
	each   []float64
	knows  map[string]bool // documents that are asked for and that it has
}

// askGeneration asks a generation by the path that queries take, with the method and the number of chunks of the
// configuration that it was built with; chunks is how many of the first count.
func (r *Run) askGeneration(ctx context.Context, sha string, probes []core.Probe, chunks int) (answered, error) {
	out := answered{each: make([]float64, len(probes)), knows: map[string]bool{}}
	generation, err := retrieve.Open(ctx, r.Artifacts, r.Cache, r.Vectors, r.Job.Index, sha, 0)
	if err != nil {
		return out, err
	}
	defer generation.Close()
	if generation, err = generation.View(ctx, core.Readers{All: true}); err != nil {
		return out, err
	}
	for _, probe := range probes {
		for _, document := range probe.Documents {
			out.knows[document] = generation.Live.FindDocument(document) >= 0
		}
	}
	settings := generation.Spec.Retrieval
	method, err := methods.Registry().Method(settings.Method)
	if err != nil {
		return out, err
	}
	spec := method.Spec()
	params, err := spec.ReadParams(nil)
	if err != nil {
		return out, err
	}
	read, err := r.embedProbes(ctx, generation, spec, probes)
	if err != nil {
		return out, err
	}
	searcher := retrieve.Searcher{Vectors: r.Vectors, Records: r.Records, Methods: methods.Registry()}
	err = parallel.Each(ctx, len(probes), probesAtOnce, func(ctx context.Context, i int) error {
		query := retrieve.Query{
			Text: probes[i].Question, Method: settings.Method, TopEntities: spec.Entities, TopChunks: chunks,
			Params: params, MinSim: settings.MinSimilarity,
			Vector: read[i].byClass, ChunkVector: read[i].byChunk, Reading: read[i].reading,
		}
		if len(spec.Rules) > 0 {
			query.Rule = settings.Rule
		}
		found, err := searcher.Run(ctx, generation, query)
		if err != nil {
			return err
		}
		shown := map[string]bool{}
		for _, chunk := range found.Chunks {
			shown[generation.Live.Key(int(chunk.Live.Document))] = true
		}
		hits := 0
		for _, document := range probes[i].Documents {
			if shown[document] {
				hits++
			}
		}
		out.each[i] = float64(hits) / float64(len(probes[i].Documents))
		r.Progress.Touch()
		return nil
	})
	for _, recall := range out.each {
		out.recall += recall / float64(len(probes))
	}
	return out, err
}

// readProbe is what a method compares of a question.
type readProbe struct {
	byClass, byChunk []float32
	reading          retrieve.Reading
}

// embedProbes reads and embeds the questions as their method needs, by the embedders that the generation was built
// with. A method that has questions read gets what rules read: no chat model is asked before a publication.
func (r *Run) embedProbes(
	ctx context.Context, generation *retrieve.Generation, method retrieve.Spec, probes []core.Probe,
) ([]readProbe, error) {
	out := make([]readProbe, len(probes))
	needs := method.Needs
	if needs.Embedding == retrieve.NoEmbedding {
		return out, nil
	}
	spec := generation.Spec // only embedders are asked: the server of another model may be gone since
	spec.Chat, spec.Roles = core.ChatModel{Provider: "builtin"}, nil
	models, err := r.Models(spec, r.Book)
	if err != nil {
		return nil, err
	}
	manifest := generation.Manifest
	questions := make([]string, len(probes))
	for i, probe := range probes {
		questions[i] = probe.Question
	}
	if needs.Embedding == retrieve.ByClassEmbedder {
		texts := slices.Clone(questions)
		for i := range probes {
			if method.Reader != nil {
				out[i].reading = method.Reader.ByRules(generation, questions[i])
				texts = append(texts, out[i].reading.Texts...)
			}
		}
		vectors, err := r.embedQuestions(ctx, generation.Weigh(model.ForQuestions(models.Classes), manifest.Class), texts)
		if err != nil {
			return nil, err
		}
		rows := vectors[len(probes):]
		for i := range out {
			n := len(out[i].reading.Texts)
			out[i].byClass, out[i].reading.Rows, rows = vectors[i], rows[:n:n], rows[n:]
		}
	}
	if needs.Embedding == retrieve.ByChunkEmbedder || needs.Hashed || manifest.Chunk.Provider != "builtin" {
		vectors, err := r.embedQuestions(ctx, generation.Weigh(model.ForQuestions(models.Chunks), manifest.Chunk), questions)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].byChunk = vectors[i]
		}
	}
	return out, nil
}

// embedQuestions embeds texts, some to a request.
func (r *Run) embedQuestions(ctx context.Context, embedder model.Embedder, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(out) < len(texts) {
		next, n, size := texts[len(out):], 0, 0
		for n < min(len(next), probeBatch) && (n == 0 || size+len(next[n]) <= probeBatchBytes) {
			size += len(next[n])
			n++
		}
		vectors, _, err := embedder.Embed(ctx, next[:n])
		if err != nil {
			return nil, err
		}
		if len(vectors) != n {
			return nil, fault.BadEmbeddings.At("embed probe questions", r.Name()).
				Because(fmt.Sprintf("%d vectors of %d texts", len(vectors), n))
		}
		out = append(out, vectors...)
		r.Progress.Touch()
	}
	return out, nil
}
