// Package extract turns chunks into entities. Steps of a batch:
//
//  1. Read the chunks' texts.
//  2. For each chunk: the ledger, else one model call, else one re-ask. Calls that fail for a while are repeated in place; a
//     chunk whose output stays bad gets a fallback mention, a negative ledger entry and a dead letter; a system failure
//     leaves it pending and fails the batch, which is repeated later at no cost for what is paid.
//  3. Write extract-<shard>-<batch>.rows once every chunk has a result.
//
// Seal then joins the batches of a shard: the extract segment, the mentions sorted by class, and a ledger pack.
package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/format/rowfile"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/format/textseg"
	"github.com/unweaver/unweaver/internal/lang/names"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// Shard is a range of the chunks of one unit, by row number of chunks-<unit>.rows.
type Shard struct {
	Number int `json:"number"`
	Unit   int `json:"unit"`
	From   int `json:"lo"`
	To     int `json:"hi"`
}

// In is what one batch works on. OnProgress is told of chunks done.
type In struct {
	Spec       corpus.Spec
	Artifacts  artifact.Index
	Scratch    string
	Gen        string
	Text       corpus.Segment
	Shard      Shard
	Batch      int
	From, To   int // rows of the unit's chunks
	Attempt    int // round of retry-failed
	Chat       model.Chat
	Ledger     *ledger.Ledger
	OnProgress func(corpus.Progress)
}

// Result of a batch.
type Result struct {
	Chunks    int64           `json:"chunks"`
	Dead      int64           `json:"dead"`
	Fallbacks int64           `json:"fallbacks"`
	Progress  corpus.Progress `json:"progress"`
}

// BatchKey is the scratch file of a batch.
func BatchKey(scratch string, shard, batch int) string {
	return fmt.Sprintf("%s/extract-%05d-%05d.rows", scratch, shard, batch)
}

// width bounds the chunks of one batch in flight; the endpoint's gate bounds them over all batches.
const width = 64

type item struct {
	doc   string
	chunk rows.Chunk
	text  string
	out   rows.Extract
	dead  bool
}

type batch struct {
	In
	mu  sync.Mutex
	res Result
}

// Run does one batch.
func Run(ctx context.Context, in In) (Result, error) {
	b := &batch{In: in}
	b.res.Progress.Stage = "extract"
	xs, err := b.load(ctx)
	if err != nil {
		return b.res, err
	}
	err = par.Each(ctx, len(xs), min(width, len(xs)), func(ctx context.Context, i int) error {
		if err := b.one(ctx, &xs[i]); err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.res.Progress.Done++
		in.OnProgress(b.res.Progress)
		return nil
	})
	if err != nil {
		return b.res, err
	}
	w, err := artifact.NewRows()
	if err != nil {
		return b.res, err
	}
	defer w.Discard()
	for i := range xs {
		w.Append(string(xs[i].chunk.ID[:]), xs[i].encode())
		if xs[i].out.Fallback != "" {
			b.res.Fallbacks++
		}
		if xs[i].dead {
			b.res.Dead++
		}
	}
	b.res.Chunks = int64(len(xs))
	return b.res, w.Scratch(ctx, in.Artifacts.Store, BatchKey(in.Scratch, in.Shard.Number, in.Batch))
}

func (b *batch) load(ctx context.Context) ([]item, error) {
	texts, err := textseg.Open(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(b.Text.SHA256))
	if err != nil {
		return nil, err
	}
	var out []item
	for ref, err := range items.Refs(ctx, b.Artifacts.Store, b.Scratch, b.Shard.Unit, b.From, b.To) {
		if err != nil {
			return nil, err
		}
		t, err := texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
		if err != nil {
			return nil, err
		}
		out = append(out, item{doc: ref.Document, chunk: ref.Chunk, text: t})
	}
	return out, nil
}

// encode is the scratch row: the extraction with what seal needs of the chunk.
func (x *item) encode() []byte {
	var enc rowfile.Enc
	enc.S(x.doc)
	enc.U(uint64(x.chunk.Ordinal))
	enc.S(x.chunk.Title)
	enc.S(lead(x.text))
	enc.Raw(x.out.Encode())
	return enc.B
}

// lead describes a title mention: the chunk's first three sentences, at most 600 runes (DESIGN §5).
func lead(s string) string {
	if len(s) > 8<<10 {
		s = strings.ToValidUTF8(s[:8<<10], "")
	}
	sents := text.Sentences(s)
	out := strings.Join(strings.Fields(strings.Join(sents[:min(3, len(sents))], "")), " ")
	if utf8.RuneCountInString(out) <= 600 {
		return out
	}
	return strings.TrimSpace(string([]rune(out)[:600]))
}

// value is a ledger entry.
type value struct {
	Entities []entity    `json:"entities"`
	Rung     string      `json:"rung,omitempty"`
	Usage    model.Usage `json:"usage"`
	Reason   string      `json:"reason,omitempty"` // of a negative entry
	Raw      string      `json:"raw,omitempty"`
}

type entity struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// one extracts one chunk.
func (b *batch) one(ctx context.Context, x *item) error {
	var v value
	paid := model.Usage{}
	calls := int64(0)
	pay := func(ctx context.Context) (ledger.Result, error) {
		r, u, n, err := b.ask(ctx, x)
		paid, calls = u, n
		if err != nil {
			return ledger.Result{}, err
		}
		enc, err := json.Marshal(r)
		return ledger.Result{Value: enc, Negative: r.Reason != ""}, err
	}
	info := b.Chat.Info()
	var entry *ledger.Entry
	var fresh bool
	var err error
	if info.Paid {
		x.out.Key = ledger.Key(ledger.Extract, Prompt, info.Model, info.Parameters, SchemaVersion, x.text)
		entry, fresh, err = b.Ledger.Do(ctx, ledger.Extract, x.out.Key, b.Attempt, pay)
	} else {
		var r ledger.Result
		r, err = pay(ctx)
		entry, fresh = &ledger.Entry{Value: r.Value, Negative: r.Negative}, true
	}
	b.account(fresh, info.Paid, calls, paid)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(entry.Value, &v); err != nil {
		return fault.SegmentDamage.At("read ledger entry", x.out.Key.String()).
			Because(err).
			Advise("delete the entry under ledger/extract/loose")
	}
	if entry.Negative {
		x.dead = true
		x.fallback(v.Reason)
		return b.deadLetter(ctx, x, v)
	}
	x.out.Rung = v.Rung
	folded := names.NewText(x.text)
	for _, m := range v.Entities {
		x.out.Entities = append(
			x.out.Entities,
			rows.Entity{Name: m.Name, Description: m.Description, Spans: folded.Spans(names.Key(m.Name, false), 8)},
		)
	}
	return nil
}

func (b *batch) account(fresh, paid bool, calls int64, usage model.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	progress := &b.res.Progress
	switch {
	case !paid:
	case fresh || calls > 0:
		progress.Calls.Extract += calls
		progress.Tokens.Prompt += usage.Prompt
		progress.Tokens.Completion += usage.Completion
		progress.Cost += (float64(usage.Prompt)*b.Spec.Chat.Price.Prompt + float64(usage.Completion)*b.Spec.Chat.Price.Completion) / 1e6
	default:
		progress.Hits.Extract++
	}
}

// ask calls the model, and once more when the first answer cannot be read.
func (b *batch) ask(ctx context.Context, x *item) (v value, usage model.Usage, calls int64, err error) {
	raw := ""
	for try := range 2 {
		call := model.Call{
			Task:   model.Extract,
			System: system,
			User:   x.text,
			Schema: schema,
			Input:  x.text,
			Ref:    x.doc,
		}
		if try == 1 {
			call.User += reminder
		}
		var reply model.Reply
		err = retry.Do(ctx, func(ctx context.Context) error {
			var err error
			reply, err = b.Chat.Complete(ctx, call)
			return err
		})
		if err != nil {
			if fault.KindOf(err) == fault.Content {
				return value{Reason: string(fault.CodeOf(err)), Raw: err.Error()}, usage, calls, nil
			}
			return value{}, usage, calls, err
		}
		calls++
		usage.Prompt += reply.Usage.Prompt
		usage.Completion += reply.Usage.Completion
		if es, rung, ok := Parse(reply.Text); ok {
			if try == 1 {
				rung = RungRetry + " " + rung
			}
			out := make([]entity, len(es))
			for i, e := range es {
				out[i] = entity{e.Name, e.Description}
			}
			return value{Entities: out, Rung: rung, Usage: usage}, usage, calls, nil
		}
		raw = reply.Text
	}
	if len(raw) > 64<<10 {
		raw = strings.ToValidUTF8(raw[:64<<10], "")
	}
	return value{Reason: string(fault.BadOutput), Raw: raw, Usage: usage}, usage, calls, nil
}

// fallback makes the chunk reachable (DESIGN §5, invariant 8): title and the first 8 digits of the chunk id.
func (x *item) fallback(reason string) {
	x.out.Fallback = reason
	t := x.text
	if r := []rune(t); len(r) > 600 {
		t = string(r[:600])
	}
	x.out.Entities = []rows.Entity{
		{Name: x.chunk.Title + " " + x.chunk.ID.String()[:8], Description: strings.Join(strings.Fields(t), " ")},
	}
}

// DeadLetter is generations/<gen>/dead-letters/<chunk id>.json.
type DeadLetter struct {
	Chunk    string `json:"chunk"`
	Document string `json:"document"`
	Ordinal  int    `json:"ordinal"`
	Reason   string `json:"reason"`
	Attempt  int    `json:"attempt"`
	Key      string `json:"ledger_key"`
	Raw      string `json:"raw"`
}

func (b *batch) deadLetter(ctx context.Context, x *item, v value) error {
	d := DeadLetter{x.chunk.ID.String(), x.doc, x.chunk.Ordinal, v.Reason, b.Attempt, x.out.Key.String(), v.Raw}
	_, err := blob.WriteJSON(
		ctx,
		b.Artifacts.Store,
		b.Artifacts.GenerationKey(b.Gen, "dead-letters/"+d.Chunk+".json"),
		d,
		blob.Cond{},
	)
	return err
}
