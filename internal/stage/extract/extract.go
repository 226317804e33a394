// Package extract turns chunks into entities. Steps of a batch:
//
//  1. Read the chunks' texts.
//  2. For each chunk: look in the ledger, else call the model, else ask it once more. Calls that fail for a while are
//     repeated in place. A chunk whose output stays bad gets a fallback mention, a negative ledger entry and a dead
//     letter. A chunk that the server refuses while it serves others gets the same without the entry, so that the next
//     run asks again. A system failure fails the batch, which is repeated later; what is paid is not paid again.
//  3. Write extract-<shard>-<batch>.rows once every chunk has a result, and paid-<shard>-<batch>.rows: the ledger
//     entries of the chunks that no pack holds yet.
//
// Seal then joins the batches of a shard: it writes the extract segment, the mentions sorted by class, and a ledger
// pack for which no entry is read again.
package extract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/entitytype"
	"github.com/unweaver/unweaver/internal/text/markup"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Shard is a range of the chunks of one unit, by row number of chunks-<unit>.rows.
type Shard struct {
	Number int `json:"number"`
	Unit   int `json:"unit"`
	From   int `json:"lo"`
	To     int `json:"hi"`

	Asked core.Digest `json:"asked,omitzero"` // key of what this run paid for before its first batch: no hit
}

// In is what one batch works on. OnProgress receives chunks done and ledger entries that answered; nil is allowed.
type In struct {
	Spec       core.Spec
	Artifacts  artifact.Index
	Scratch    string
	Gen        string
	Text       core.Segment
	Chunks     string // key of the unit's chunks; empty: join.ChunksKey
	Shard      Shard
	Batch      int
	From, To   int      // rows of the unit's chunks
	Attempt    int      // round of retry-failed
	Chooser    *Chooser // nil: every chunk is extracted by Spec
	Chat       model.Chat
	Health     *stage.Health // of Chat, over the units of the run; nil is allowed
	Ledger     *ledger.Ledger
	OnProgress func(core.Progress)
}

// Result of a batch.
type Result struct {
	Chunks    int64         `json:"chunks"`
	Dead      int64         `json:"dead"`
	Fallbacks int64         `json:"fallbacks"`
	Progress  core.Progress `json:"progress"`
	Rows      string        `json:"rows,omitempty"` // name of the file at BatchKey; see artifact.ScratchKey
	Paid      string        `json:"paid,omitempty"` // of the one at PaidKey
}

// BatchKey returns the scratch file of a batch.
func BatchKey(scratch string, shard, batch int) string {
	return fmt.Sprintf("%s/extract-%05d-%05d.rows", scratch, shard, batch)
}

// PaidKey returns the scratch file of a batch's ledger entries that no pack holds, by key.
func PaidKey(scratch string, shard, batch int) string {
	return fmt.Sprintf("%s/paid-%05d-%05d.rows", scratch, shard, batch)
}

// width bounds the chunks of one batch in flight; the endpoint's gate bounds them over all batches.
const width = 64

type item struct {
	spec  core.Spec // by which it is extracted
	doc   string
	chunk rows.Chunk
	text  string
	out   rows.Extract
	dead  *value // why nothing came of it
	loose []byte // its ledger entry, where it is positive and in no pack; nil: it is none
}

type batch struct {
	In
	round stage.Round
	mu    sync.Mutex
	res   Result
	// unproven are failures that may turn out to be the model's, as no chunk came to anything yet.
	unproven []unproven
}

// unproven is a failure that is in no ledger yet.
type unproven struct {
	key core.Digest
	value
}

// Run does one batch. Result.Progress counts chunks done and ledger entries that answered, also when it fails.
func Run(ctx context.Context, in In) (Result, error) {
	b := &batch{In: in, round: in.Health.BeginRound()}
	b.res.Progress.Stage = "extract"
	chunks, err := b.loadChunks(ctx)
	if err != nil {
		return b.res, err
	}
	err = parallel.Each(ctx, len(chunks), min(width, len(chunks)), func(ctx context.Context, i int) error {
		if err := b.extractChunk(ctx, &chunks[i]); err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.res.Progress.Done++
		stage.ReportProgress(in.OnProgress, b.res.Progress)
		return nil
	})
	if err != nil {
		return b.res, err
	}
	if err := b.deadLetters(ctx, chunks); err != nil {
		return b.res, err
	}
	for i := range chunks {
		if chunks[i].out.Fallback != "" {
			b.res.Fallbacks++
		}
		if chunks[i].dead != nil {
			b.res.Dead++
		}
	}
	b.res.Chunks = int64(len(chunks))
	files := []func(context.Context, []item) error{b.writeRows}
	if in.Chat.Info().Paid {
		files = append(files, b.writePaid)
	}
	err = parallel.Each(ctx, len(files), len(files), func(ctx context.Context, i int) error {
		return files[i](ctx, chunks)
	})
	return b.res, err
}

// writeRows writes what came of the chunks.
func (b *batch) writeRows(ctx context.Context, chunks []item) error {
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for i := range chunks {
		out.Append(string(chunks[i].chunk.ID[:]), chunks[i].encodeRow(b.Spec))
	}
	b.res.Rows, err = out.PutScratch(ctx, b.Artifacts, BatchKey(b.Scratch, b.Shard.Number, b.Batch))
	return err
}

// writePaid writes the ledger entries of the chunks that no pack holds, so that the maker of a pack of them need not
// read them one by one.
func (b *batch) writePaid(ctx context.Context, chunks []item) error {
	var loose []ledger.Stored
	for i := range chunks {
		if chunks[i].loose != nil {
			loose = append(loose, ledger.Stored{Key: chunks[i].out.Key, Value: chunks[i].loose})
		}
	}
	slices.SortFunc(loose, func(a, b ledger.Stored) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for _, entry := range loose {
		out.Append(string(entry.Key[:]), entry.Value)
	}
	b.res.Paid, err = out.PutScratch(ctx, b.Artifacts, PaidKey(b.Scratch, b.Shard.Number, b.Batch))
	return err
}

func (b *batch) loadChunks(ctx context.Context) ([]item, error) {
	var out []item
	for x, err := range b.streamChunks(ctx) {
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// streamChunks streams the chunks of the batch with their texts, and with what they are extracted by.
func (in In) streamChunks(ctx context.Context) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		texts, err := textseg.Open(ctx, in.Artifacts.Store, in.Artifacts.SegmentKey(in.Text.SHA256))
		if err != nil {
			yield(item{}, err)
			return
		}
		chunks := cmp.Or(in.Chunks, join.ChunksKey(in.Scratch, in.Shard.Unit))
		for ref, err := range join.StreamRefs(ctx, in.Artifacts.Store, chunks, in.From, in.To) {
			x := item{doc: ref.Document, chunk: ref.Chunk, spec: in.Spec}
			if err == nil {
				x.text, err = texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
			}
			if err == nil && in.Chat != nil {
				x.spec, err = in.Chooser.chooseFor(ctx, in.Spec, in.Chat.Info(), x.chunk.ID, x.text)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// encodeRow returns the scratch row: the extraction with what seal needs of the chunk.
func (x *item) encodeRow(spec core.Spec) []byte {
	var enc rowfile.Enc
	if spec.ReadAs().Labels.IsOn() {
		enc.S(string(x.chunk.Labels))
	}
	enc.S(x.doc)
	enc.U(uint64(x.chunk.Ordinal))
	enc.S(x.chunk.Title)
	enc.S(leadOf(x.text))
	enc.Raw(x.out.Encode())
	return enc.B
}

// leadRunes bounds the description of a title mention and of a fallback mention.
const leadRunes = 600

// leadOf describes a title mention: the chunk's first three sentences, at most leadRunes.
func leadOf(chunk string) string {
	sentences := text.Sentences(text.Beginning(chunk, 8<<10))
	out := markup.Prose(strings.Join(sentences[:min(3, len(sentences))], ""))
	if utf8.RuneCountInString(out) <= leadRunes {
		return out
	}
	return strings.TrimSpace(string([]rune(out)[:leadRunes]))
}

// value is a ledger entry.
type value struct {
	Entities []entity    `json:"entities"`
	Rung     string      `json:"rung,omitempty"`
	Usage    model.Usage `json:"usage"`
	Reason   string      `json:"reason,omitempty"` // of a negative entry
	Raw      string      `json:"raw,omitempty"`

	attempt int  // of a negative entry: the round of retry-failed that failed last
	lasting bool // of a failure: it is about the text, for sure
}

type entity struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Type        string `json:"type,omitempty"` // of those that were asked for
}

// extractChunk extracts one chunk.
func (b *batch) extractChunk(ctx context.Context, x *item) error {
	if err := b.round.CheckEnd(); err != nil {
		return err
	}
	v, err := b.answerChunk(ctx, x)
	if err != nil {
		return err
	}
	if err := b.rememberFailures(ctx); err != nil {
		return err
	}
	if v.Reason != "" {
		x.dead = &v
		x.addFallback(v.Reason, b.Spec.Parity)
		return nil
	}
	x.out.Rung = v.Rung
	folded := names.NewTextOf(text.LanguageOf(b.Spec.Retrieval.Language), x.text)
	found := v.Entities
	if b.Chat.Info().Provider != "builtin" && v.Rung != RungRule && !b.Spec.Parity {
		found = cleanEntities(found, x.text)
	}
	if b.Spec.Parity { // the reference takes what has both
		found = slices.DeleteFunc(slices.Clone(found), func(one entity) bool { return one.Description == "" })
	}
	kept, cut := boundEntities(found)
	if cut > 0 {
		b.mu.Lock()
		b.res.Progress.Cut += cut
		b.mu.Unlock()
	}
	for _, m := range kept {
		x.out.Entities = append(
			x.out.Entities,
			rows.Entity{
				Name: m.Name, Description: m.Description, Type: m.Type, Spans: folded.Spans(names.Key(m.Name, false), 8),
			},
		)
	}
	return nil
}

// answerChunk returns the ledger's entry for a chunk, else the model's, which enters the ledger. Models that cost
// nothing are asked each time. A chunk that is not among the share that the model gets is extracted by rule.
func (b *batch) answerChunk(ctx context.Context, x *item) (value, error) {
	info := b.Chat.Info()
	if !sendsChunk(b.Spec, info, x.text) {
		return byRule(ctx, b.Spec.Retrieval.Language, x.text)
	}
	if !info.Paid {
		v, _, err := b.askModel(ctx, x)
		return v, err
	}
	x.out.Key = Key(info, x.spec, x.text)
	var passing value // a failure that no entry is made of, or not yet
	entry, fresh, err := b.Ledger.DoAccepting(ctx, ledger.Extract, x.out.Key, b.Attempt, checkEntry,
		func(ctx context.Context) (ledger.Result, error) {
			v, lasts, err := b.askModel(ctx, x)
			if err != nil {
				return ledger.Result{}, err
			}
			if !lasts || v.Reason != "" && !b.round.IsProven() {
				passing = v
				return ledger.Result{}, errPassing
			}
			raw, err := json.Marshal(v)
			return ledger.Result{Value: raw, Negative: v.Reason != ""}, err
		},
	)
	if errors.Is(err, errPassing) {
		if passing.lasting {
			b.mu.Lock()
			b.unproven = append(b.unproven, unproven{x.out.Key, passing})
			b.mu.Unlock()
		}
		return passing, nil
	}
	if err != nil {
		return value{}, err
	}
	if !entry.Negative && !entry.Packed {
		x.loose = entry.Value
	}
	v, err := readEntry(*entry)
	if err != nil {
		return value{}, err
	}
	// What no pack has in mode batch, this run's batches answered: it is counted with what was paid for.
	batched := b.Spec.ChatOf(core.RoleExtraction).Batch.IsOn() && !entry.Packed
	if !fresh && !batched && (b.Shard.Asked.IsZero() || x.out.Key != b.Shard.Asked) {
		b.mu.Lock()
		b.res.Progress.Hits.Extract++
		b.mu.Unlock()
	}
	return v, nil
}

// rememberFailures makes entries of failures that turned out to be the chunks' own, as soon as others came to
// something: what ends the batch before its end has nothing paid for again. The others are asked for again by the next
// build that needs them.
func (b *batch) rememberFailures(ctx context.Context) error {
	if !b.round.IsProven() {
		return nil
	}
	b.mu.Lock()
	failures := b.unproven
	b.unproven = nil
	b.mu.Unlock()
	for _, failure := range failures {
		paid := func(context.Context) (ledger.Result, error) {
			raw, err := json.Marshal(failure.value)
			return ledger.Result{Value: raw, Negative: true}, err
		}
		if _, _, err := b.Ledger.Do(ctx, ledger.Extract, failure.key, b.Attempt, paid); err != nil {
			return err
		}
	}
	return nil
}

// errPassing keeps the ledger from remembering a failure that may not last.
var errPassing = errors.New("not worth remembering")

// readEntry reads a ledger entry.
func readEntry(entry ledger.Entry) (value, error) {
	var v value
	if err := json.Unmarshal(entry.Value, &v); err != nil {
		return v, fault.SegmentDamage.At("read ledger entry of", "an extraction").Because(err)
	}
	v.attempt = entry.Attempt
	return v, nil
}

// checkEntry refuses entries that are damaged.
func checkEntry(entry ledger.Entry) error {
	_, err := readEntry(entry)
	return err
}

// Key returns the key of a chunk's extraction in the ledger.
func Key(info model.Info, spec core.Spec, text string) core.Digest {
	return keyOf(info, versionOf(spec, text), text)
}

func keyOf(info model.Info, version, text string) core.Digest {
	key := ledger.Key(ledger.Extract, version, info.Model, info.Parameters, SchemaVersion, text)
	return ledger.ScopeKey(info.Domain, key)
}

// reading is an answer as the parser read it.
type reading struct {
	entities []rows.Entity
	rung     string
}

// askModel calls the model, and once more when the first answer cannot be read. It reports whether what came of it
// lasts.
func (b *batch) askModel(ctx context.Context, x *item) (v value, lasts bool, err error) {
	prompt := promptOf(x.spec, x.text)
	answer, err := stage.Ask(ctx, b.Chat, prompt.call(x.doc, x.text), prompt.reminder, func(text string) (reading, bool) {
		entities, rung, ok := Parse(text)
		return reading{entities, rung}, ok
	}, b.Health)
	if err != nil {
		return value{}, false, err
	}
	v = value{Usage: answer.Usage, Reason: answer.Reason, Raw: answer.Raw, Rung: answer.Value.rung}
	if answer.Reason != "" {
		v.lasting = !answer.Passing
		return v, v.lasting, nil
	}
	if answer.Retried {
		v.Rung = RungRetry + " " + v.Rung
	}
	v.Entities = answer.Value.toStored(x.spec.OwnRequest())
	return v, true, nil
}

// toStored returns the entities as a ledger entry has them. A type that was not asked for is none.
func (r reading) toStored(asked core.Request) []entity {
	out := make([]entity, len(r.entities))
	for i, e := range r.entities {
		out[i] = entity{e.Name, e.Description, entitytype.Find(asked.Types, e.Type)}
	}
	return out
}

// addFallback makes the chunk reachable though nothing was extracted from it (docs/reference/formats.md, Mentions): a
// mention named by the title and the first 8 digits of the chunk id. Under parity such a chunk has no mention.
func (x *item) addFallback(reason string, parity bool) {
	if x.out.Fallback = reason; parity {
		return
	}
	start := x.text
	if runes := []rune(start); len(runes) > leadRunes {
		start = string(runes[:leadRunes])
	}
	start = cmp.Or(markup.Prose(start), strings.Join(strings.Fields(start), " ")) // of marks alone
	x.out.Entities = []rows.Entity{
		{Name: x.chunk.Title + " " + x.chunk.ID.String()[:8], Description: start},
	}
}
