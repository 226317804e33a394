// Package factstage makes the facts of a generation: what its chunks say as triples, numbered in a codebook, cut into
// runs, with a vector of each entity, relation and edge (internal/methods/apr, internal/methods/apr/facts). Steps:
//
//  1. Pay has the ledger hold the triples of chunks and the vectors of what they name: part by part of the chunks, in
//     any order, by any worker. What it has is not paid for again, so that a night pays for the chunks that changed.
//  2. Seal reads all of it, puts it in chunk order and writes the file, which is that of a build from nothing:
//     nothing of it is taken from an earlier file.
//
// A part of a chunk whose answer stays of no use has the triples that rules find in it, and is counted.
package factstage

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods/apr"
	format "github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
)

// Rules is the version of everything here that shapes the file, beside prompt and models: a new one makes it again.
// facts/1: first form. facts/2: vectors as codes, runs cut by them. facts/3: rules pass over what is no prose.
const Rules = "facts/3"

// In is what facts are made of.
type In struct {
	Language    *text.Language
	Chat        model.Chat
	Health      *stage.Health // of Chat; nil is allowed
	Ledger      *ledger.Ledger
	Embedder    model.Embedder
	Fingerprint core.Digest // of the embedder
	Segmenter   apr.Segmenter
	Attempt     int // round of retry-failed
}

// Counts of what was made.
type Counts struct {
	Chunks              int64
	Fallbacks           int64 // parts of which rules found the triples
	Triples, Left       int64 // what was read, and what of it is no triple of a codebook
	Entities, Relations int64
	Edges, Runs         int64
}

// width bounds the parts of chunks in flight; the endpoint's gate bounds them over all workers.
const width = 64

// window is how many chunks are held at once.
const window = 256

// Pay has the ledger hold what Seal needs of chunks. What costs nothing is not asked for.
func (in In) Pay(ctx context.Context, chunks iter.Seq2[enrich.Chunk, error]) error {
	for group, err := range parallel.Batch(chunks, window) {
		if err != nil {
			return err
		}
		said, err := in.readChunks(ctx, group, new(Counts))
		if err != nil {
			return err
		}
		if !in.Embedder.Info().Paid {
			continue
		}
		var all []triples.Triple
		for _, chunk := range said {
			all = append(all, chunk.triples...)
		}
		book, _, _ := apr.Indexify([]apr.Document{{Triples: all}})
		for _, texts := range [][]string{book.Entities, book.Relations, linesOf(book)} {
			if err := in.payVectors(ctx, texts); err != nil {
				return err
			}
		}
	}
	return nil
}

// payVectors has the ledger hold the vectors of texts, which are cut into requests by their content.
func (in In) payVectors(ctx context.Context, texts []string) error {
	source := embed.Source{Embedder: in.Embedder, Ledger: in.Ledger}
	items := in.itemsOf(slices.Sorted(slices.Values(texts)))
	return embed.EachBatch(ctx, width, items, func(ctx context.Context, _ int, some []embed.Item) error {
		return source.Pay(ctx, some)
	})
}

func (in In) itemsOf(texts []string) iter.Seq2[embed.Item, error] {
	items := make([]embed.Item, len(texts))
	for i, one := range texts {
		items[i] = embed.Item{Key: one, Digest: embed.Digest(one, in.Fingerprint), Text: one}
	}
	return parallel.Items(items)
}

// Seal writes the file of chunks, in whatever order they come; one that comes again counts once. What the ledger lacks
// it pays for. Memory grows with what is said.
func (in In) Seal(ctx context.Context, chunks iter.Seq2[enrich.Chunk, error], out io.Writer) (Counts, error) {
	var counts Counts
	var read []placed
	keys := map[core.Digest]bool{}
	for group, err := range parallel.Batch(skipRepeats(chunks), window) {
		if err != nil {
			return counts, err
		}
		said, err := in.readChunks(ctx, group, &counts)
		if err != nil {
			return counts, err
		}
		for i, chunk := range said {
			read = append(read, placed{group[i].Document, group[i].Ordinal, group[i].ID, chunk.triples})
			for _, key := range chunk.keys {
				keys[key] = true
			}
		}
	}
	book, sequences, left := apr.Indexify(documentsOf(read))
	counts.Left += int64(left)
	facts := format.Facts{Book: book, Keys: slices.SortedFunc(maps.Keys(keys), func(a, b core.Digest) int {
		return bytes.Compare(a[:], b[:])
	})}
	for _, one := range []struct {
		texts []string
		into  *apr.Table
	}{{book.Entities, &facts.Entities}, {book.Relations, &facts.Relations}, {linesOf(book), &facts.Lines}} {
		table, err := in.buildTable(ctx, one.texts)
		if err != nil {
			return counts, err
		}
		*one.into = table
	}
	book.Runs = in.cutRuns(book, sequences, facts.Lines)
	counts.Entities, counts.Relations = int64(len(book.Entities)), int64(len(book.Relations))
	counts.Edges, counts.Runs = int64(len(book.Edges)), int64(len(book.Runs))
	dimension := max(facts.Entities.Dim, in.Embedder.Dimension(), 1)
	return counts, format.Write(out, format.Of{Embedder: in.Fingerprint.String(), Dimension: dimension}, facts)
}

// placed is what a chunk says, with its place.
type placed struct {
	document string
	ordinal  int
	id       core.ID
	triples  []triples.Triple
}

// documentsOf puts chunks in order.
func documentsOf(read []placed) []apr.Document {
	slices.SortFunc(read, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.document, b.document), cmp.Compare(a.ordinal, b.ordinal), bytes.Compare(a.id[:], b.id[:]))
	})
	var out []apr.Document
	for _, chunk := range read {
		if n := len(out); n == 0 || out[n-1].Key != chunk.document {
			out = append(out, apr.Document{Key: chunk.document})
		}
		last := &out[len(out)-1]
		last.Triples = append(last.Triples, chunk.triples...)
	}
	return out
}

// cutRuns returns the runs of all documents, each sequence of edges once.
func (in In) cutRuns(book *apr.Codebook, sequences []apr.Sequence, lines apr.Table) [][]uint32 {
	var out [][]uint32
	seen := map[string]bool{}
	for _, sequence := range sequences {
		stream := make([]apr.Line, len(sequence.Edges))
		for i, edge := range sequence.Edges {
			stream[i] = apr.Line{Edge: book.Edges[edge], Unit: lines.Vector(int(edge))}
		}
		at := 0
		for _, run := range in.Segmenter.Refine(in.Segmenter.Cut(stream)) {
			edges := sequence.Edges[at : at+len(run) : at+len(run)]
			at += len(run)
			var name []byte
			for _, edge := range edges {
				name = append(name, byte(edge>>24), byte(edge>>16), byte(edge>>8), byte(edge))
			}
			if !seen[string(name)] {
				seen[string(name)] = true
				out = append(out, edges)
			}
		}
	}
	return out
}

func linesOf(book *apr.Codebook) []string {
	out := make([]string, len(book.Edges))
	for i := range book.Edges {
		out[i] = book.Text(uint32(i))
	}
	return out
}

// buildTable returns a table of the vectors of texts, in their order.
func (in In) buildTable(ctx context.Context, texts []string) (apr.Table, error) {
	source := embed.Source{Embedder: in.Embedder, Ledger: in.Ledger}
	changed := fault.DimensionChanged.At("embed", "the facts of chunks").
		Because("vectors of one embedder have different lengths").Advise("build the index again")
	found := make([]apr.Table, len(texts)) // by the first text of each request
	err := embed.EachBatch(ctx, width, in.itemsOf(texts), func(ctx context.Context, at int, some []embed.Item) error {
		vectors, err := source.Vectors(ctx, some)
		for _, vector := range vectors { // only their codes are held
			if found[at].Dim == 0 {
				found[at].Dim = len(vector)
			}
			if len(vector) != found[at].Dim {
				return changed
			}
			found[at].Add(vector)
		}
		return err
	})
	out := apr.Table{Dim: in.Embedder.Dimension()}
	if err != nil {
		return out, err
	}
	for at, table := range found {
		if table.Len() == 0 {
			continue
		}
		if out.Dim == 0 {
			out.Dim = table.Dim
		}
		if table.Dim != out.Dim {
			return out, changed
		}
		out.Append(table)
		found[at] = apr.Table{}
	}
	return out, nil
}

// said is what a chunk says, and the ledger keys that it was paid for under.
type said struct {
	triples []triples.Triple
	keys    []core.Digest
}

// readChunks gives what chunks say, in their order.
func (in In) readChunks(ctx context.Context, chunks []enrich.Chunk, counts *Counts) ([]said, error) {
	type job struct {
		chunk int
		part  triples.Part
	}
	var jobs []job
	for i, chunk := range chunks {
		for _, part := range triples.CutParts(in.Language, chunk.Text) {
			jobs = append(jobs, job{i, part})
		}
	}
	results := make([]result, len(jobs))
	err := parallel.Each(ctx, len(jobs), min(width, len(jobs)), func(ctx context.Context, i int) (err error) {
		results[i], err = in.readPart(ctx, chunks[jobs[i].chunk], jobs[i].part)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]said, len(chunks))
	for i, result := range results {
		chunk := chunks[jobs[i].chunk]
		into := &out[jobs[i].chunk]
		for _, triple := range result.said.Triples {
			triple.Source.Chunk = string(chunk.ID[:])
			into.triples = append(into.triples, triple)
		}
		if !result.key.IsZero() {
			into.keys = append(into.keys, result.key)
		}
		counts.Triples += int64(len(result.said.Triples))
		counts.Left += int64(result.said.Unfit + result.said.Cut)
		if result.fallback {
			counts.Fallbacks++
		}
	}
	counts.Chunks += int64(len(chunks))
	return out, nil
}

// result of one part.
type result struct {
	said     triples.Said
	key      core.Digest // of the ledger; zero where nothing was paid
	fallback bool
}

// value is a ledger entry: an answer that can be read, or why there is none.
type value struct {
	Answer  string      `json:"answer,omitempty"`
	Usage   model.Usage `json:"usage"`
	Reason  string      `json:"reason,omitempty"`
	Lasting bool        `json:"lasting,omitempty"` // of a failure: it is about the text
}

// Key returns the key of a part's triples in the ledger.
func Key(info model.Info, part triples.Part) core.Digest {
	return ledger.ScopeKey(info.Domain,
		ledger.Key(ledger.Triples, triples.Prompt, info.Model, info.Parameters, triples.SchemaVersion, part.Text()))
}

// readPart gives what a part says: by the ledger, else by the model, else by rule.
func (in In) readPart(ctx context.Context, chunk enrich.Chunk, part triples.Part) (result, error) {
	info := in.Chat.Info()
	if !info.Paid {
		answer, err := in.askModel(ctx, chunk, part)
		if err != nil {
			return result{}, err
		}
		return in.readAnswer(ctx, chunk, part, valueOf(answer), result{})
	}
	key := Key(info, part)
	var v value
	_, passing, err := stage.RecallOrAsk(ctx, in.Ledger, ledger.Triples, key, in.Attempt,
		func(ctx context.Context) (stage.Answer[string], error) { return in.askModel(ctx, chunk, part) },
		valueOf, &v)
	if err != nil {
		return result{}, err
	}
	if passing {
		return in.readAnswer(ctx, chunk, part, value{}, result{})
	}
	return in.readAnswer(ctx, chunk, part, v, result{key: key})
}

// readAnswer reads an answer, or has rules find triples where there is none.
func (in In) readAnswer(
	ctx context.Context, chunk enrich.Chunk, part triples.Part, v value, out result,
) (result, error) {
	var ok bool
	if out.said, ok = part.Read(v.Answer); ok && v.Reason == "" {
		return out, nil
	}
	out.fallback = true
	reply, err := builtin.Chat{Language: in.Language.Code()}.Complete(ctx, part.Call(chunk.Document))
	if err != nil {
		return out, err
	}
	out.said, _ = part.Read(reply.Text)
	return out, nil
}

// askModel calls the model, and once more when the first answer cannot be read.
func (in In) askModel(ctx context.Context, chunk enrich.Chunk, part triples.Part) (stage.Answer[string], error) {
	return stage.Ask(ctx, in.Chat, part.Call(chunk.Document), triples.Reminder,
		func(text string) (string, bool) {
			_, ok := part.Read(text)
			return text, ok
		}, in.Health)
}

func valueOf(answer stage.Answer[string]) value {
	return value{
		Answer: answer.Value, Usage: answer.Usage, Reason: answer.Reason, Lasting: answer.Reason != "" && !answer.Passing,
	}
}

// skipRepeats leaves out chunks that came already.
func skipRepeats(chunks iter.Seq2[enrich.Chunk, error]) iter.Seq2[enrich.Chunk, error] {
	return func(yield func(enrich.Chunk, error) bool) {
		seen := map[core.ID]bool{}
		for chunk, err := range chunks {
			if err == nil && seen[chunk.ID] {
				continue
			}
			seen[chunk.ID] = true
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}
