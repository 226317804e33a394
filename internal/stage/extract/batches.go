package extract

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	batchapi "github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Batches puts the calls of a build into files, and what comes back into the ledger, by the same reading and under the
// same keys as calls of their own. Safe for concurrent use.
type Batches struct {
	Chat    model.Chat
	Model   model.Batcher // of Chat
	Ledger  *ledger.Ledger
	Spec    core.Spec
	Attempt int                     // round of retry-failed
	Paid    func(usage model.Usage) // receives each answer before it is stored

	mu      sync.Mutex
	useless map[string]bool // answered, and of no use: left to calls of their own
}

// BuildRequests gives the calls of a range of chunks, answered or not, but for those that keep an earlier request: what
// the ledger lost of these is asked for one by one. tokens of a prompt are estimated at four bytes each.
func (b *Batches) BuildRequests(ctx context.Context, in In) ([]batchapi.Request, error) {
	return b.buildRequests(ctx, in, nil)
}

// buildRequests gives the calls whose ids are wanted; nil: all.
func (b *Batches) buildRequests(ctx context.Context, in In, wanted map[string]bool) ([]batchapi.Request, error) {
	info := b.Chat.Info()
	request := b.Spec.OwnRequest()
	own, version := request.Digest(), ownVersion(request)
	in.Chat = b.Chat
	var out []batchapi.Request
	for x, err := range in.streamChunks(ctx) {
		if err != nil {
			return nil, err
		}
		key := keyOf(info, versionWith(b.Spec, version, x.text), x.text)
		if wanted != nil && !wanted[key.String()] || !sendsChunk(b.Spec, info, x.text) ||
			x.spec.OwnRequest().Digest() != own {
			continue
		}
		call := promptOf(b.Spec, x.text).call(x.doc, x.text)
		body, err := b.Model.Request(call)
		if err != nil {
			return nil, err
		}
		tokens := int64(len(call.System)+len(call.User)+3) / 4
		out = append(out, batchapi.Request{ID: key.String(), Body: body, Tokens: tokens})
	}
	return out, nil
}

// FindMissing gives those of the keys that a batch is to be asked for: the ledger has nothing of them, and no answer of
// no use came.
func (b *Batches) FindMissing(ctx context.Context, ids []string) ([]string, error) {
	known := make([]bool, len(ids))
	err := parallel.Each(ctx, len(ids), min(width, max(1, len(ids))), func(ctx context.Context, i int) error {
		b.mu.Lock()
		known[i] = b.useless[ids[i]]
		b.mu.Unlock()
		if known[i] {
			return nil
		}
		var key core.Digest
		if err := key.UnmarshalText([]byte(ids[i])); err != nil {
			return fault.Internal.At("look up in the ledger", ids[i]).Because(err)
		}
		entry, err := b.Ledger.Get(ctx, ledger.Extract, key, b.Attempt)
		known[i] = entry != nil
		return err
	})
	var missing []string
	for i, id := range ids {
		if !known[i] {
			missing = append(missing, id)
		}
	}
	return missing, err
}

// TakeAnswers puts answers into the ledger. What cannot be used is left to calls of their own, which ask once more and
// tell why nothing came of it.
func (b *Batches) TakeAnswers(ctx context.Context, answers []batchapi.Answer) error {
	return parallel.Each(ctx, len(answers), min(width, max(1, len(answers))), func(ctx context.Context, i int) error {
		if !answers[i].IsAnswered() {
			if !answers[i].CanRetry() {
				b.markUseless(answers[i].ID)
			}
			return nil
		}
		return b.takeAnswer(ctx, answers[i])
	})
}

func (b *Batches) markUseless(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.useless == nil {
		b.useless = map[string]bool{}
	}
	b.useless[id] = true
}

// CountLeft returns how many were answered, or refused, without use.
func (b *Batches) CountLeft() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.useless))
}

func (b *Batches) takeAnswer(ctx context.Context, answer batchapi.Answer) error {
	var key core.Digest
	if err := key.UnmarshalText([]byte(answer.ID)); err != nil {
		return fault.Internal.At("take an answer of a batch", answer.ID).Because(err)
	}
	reply, failed := b.Model.Read(promptOf(b.Spec, "").call("", ""), answer.Body)
	var entities []entity
	var rung string
	ok := false
	if failed == nil {
		entities, rung, ok = parseAnswer(reply.Text, b.Spec.OwnRequest())
		ok = ok && !reply.Roomier
	}
	if !ok {
		b.Paid(reply.Usage)
		b.markUseless(answer.ID)
		return nil
	}
	_, _, err := b.Ledger.DoAccepting(ctx, ledger.Extract, key, b.Attempt, checkEntry,
		func(context.Context) (ledger.Result, error) {
			b.Paid(reply.Usage)
			raw, err := json.Marshal(value{Entities: entities, Rung: rung, Usage: reply.Usage})
			return ledger.Result{Value: raw}, err
		},
	)
	return err
}

// parseAnswer reads an answer; one that makes the reader panic cannot be read.
func parseAnswer(text string, asked core.Request) (out []entity, rung string, ok bool) {
	var crash error
	func() {
		defer parallel.CatchPanic(&crash)
		var found reading
		found.entities, found.rung, ok = Parse(text)
		out, rung = found.toStored(asked), found.rung
	}()
	return out, rung, ok && crash == nil
}

// SelectRequests gives some of the calls of a range of chunks.
func (b *Batches) SelectRequests(ctx context.Context, in In, ids []string) ([]batchapi.Request, error) {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	all, err := b.buildRequests(ctx, in, wanted)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y batchapi.Request) int { return strings.Compare(x.ID, y.ID) })
	return slices.CompactFunc(all, func(x, y batchapi.Request) bool { return x.ID == y.ID }), nil
}
