// Package embed gives the vectors of texts through the ledger, which has them text by text: a call for a text
// that was paid for, in whatever company, gets it for nothing. What is missing is asked for in requests of many texts.
package embed

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Templates of embedded texts; part of fingerprints.
const (
	ClassTemplate  = "name: descriptions/1"
	ParityTemplate = "descriptions/1"
	ChunkTemplate  = "title+text/1"
	WindowRule     = "words 150/110/1"
)

// Item is one text with the row that its vector is for.
type Item struct {
	Key    string      // of the vector row
	Digest core.Digest // of the exact text and the fingerprint
	Text   string
	Window int // of a chunk that has several; 0: the first
}

// Digest returns the digest of an embedded text.
func Digest(text string, fingerprint core.Digest) core.Digest {
	return core.Sum("vector/1", text, fingerprint.String())
}

// ChunkDigest covers all windows of a chunk.
func ChunkDigest(title, text string, fingerprint core.Digest) core.Digest {
	return core.Sum("chunk-vector/1", ChunkText(title, text), WindowRule, fingerprint.String())
}

// ChunkText returns a chunk as it is embedded and indexed: title, empty line, text. Without a title, as under parity,
// it returns the text alone.
func ChunkText(title, text string) string {
	if title == "" {
		return text
	}
	return title + "\n\n" + text
}

// CutWindows cuts a chunk that is too long for the embedder: 150 words a window, step 110, the title in front of each.
func CutWindows(title, text string, maxTokens int) []string {
	whole := ChunkText(title, text)
	if maxTokens <= 0 || len(whole) <= maxTokens || tokens.Count(whole) <= maxTokens {
		return []string{whole}
	}
	words := strings.Fields(text)
	const width, step = 150, 110
	var out []string
	for at := 0; ; at += step {
		end := min(at+width, len(words))
		out = append(out, Fit(ChunkText(title, strings.Join(words[at:end], " ")), maxTokens))
		if end == len(words) {
			return out
		}
	}
}

// Fit cuts a text to the embedder's input.
func Fit(s string, maxTokens int) string {
	if maxTokens <= 0 || len(s) <= maxTokens { // a token is at least a byte
		return s
	}
	lens := tokens.Split(s)
	if len(lens) <= maxTokens {
		return s
	}
	n := 0
	for _, l := range lens[:maxTokens] {
		n += l
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// MaxItems is how many texts a request has at most.
const MaxItems = 256

// A request has at most this much: what servers take, and a slow one answers within its time. See takes for those that
// take less.
const (
	maxBytes = 120_000
	minItems = 160
)

// CutBatches cuts a sequence into requests by content.
func CutBatches(src iter.Seq2[Item, error]) iter.Seq2[[]Item, error] {
	return func(yield func([]Item, error) bool) {
		var cur []Item
		n := 0
		for it, err := range src {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(cur) > 0 && n+len(it.Text) > maxBytes {
				if !yield(cur, nil) {
					return
				}
				cur, n = nil, 0
			}
			cur = append(cur, it)
			n += len(it.Text)
			if len(cur) >= MaxItems || (len(cur) >= minItems && it.Digest[0] < 6) {
				if !yield(cur, nil) {
					return
				}
				cur, n = nil, 0
			}
		}
		if len(cur) > 0 {
			yield(cur, nil)
		}
	}
}

// EachBatch cuts items into requests by their content and calls do for each of them, at most width at once. at is the
// place of a request's first item.
func EachBatch(
	ctx context.Context, width int, items iter.Seq2[Item, error],
	do func(ctx context.Context, at int, request []Item) error,
) error {
	var requests [][]Item
	starts := []int{0}
	for request, err := range CutBatches(items) {
		if err != nil {
			return err
		}
		requests, starts = append(requests, request), append(starts, starts[len(starts)-1]+len(request))
	}
	return parallel.Each(ctx, len(requests), min(width, len(requests)), func(ctx context.Context, i int) error {
		return do(ctx, starts[i], requests[i])
	})
}

// Source gives vectors through the ledger. What they cost is counted where the model is called, not here.
type Source struct {
	Embedder model.Embedder
	Ledger   *ledger.Ledger
	OnPaid   func(texts int) // receives how many texts were paid for, from several goroutines; nil is allowed
}

// FindMissing gives those of the items whose vectors would have to be paid for.
func (s Source) FindMissing(ctx context.Context, items []Item) ([]Item, error) {
	if !s.Embedder.Info().Paid {
		return nil, nil
	}
	_, objects, err := s.findObjects(ctx, items)
	if err != nil {
		return nil, err
	}
	var missing []Item
	for i, object := range objects {
		if object.IsZero() {
			missing = append(missing, items[i])
		}
	}
	return missing, nil
}

// Pay has the ledger hold the vectors of items. It asks the model for those that were not asked for, in one request
// where the model takes them.
func (s Source) Pay(ctx context.Context, items []Item) error {
	keys := s.keysOf(items)
	ledger.NoteKeys(ctx, ledger.Embed, keys...)
	return s.Ledger.PayTexts(ctx, keys, func(ctx context.Context, places []int) error {
		wanted := make([]Item, len(places))
		for n, i := range places {
			wanted[n] = items[i]
		}
		err := s.storeVectors(ctx, wanted)
		if err == nil && s.OnPaid != nil {
			s.OnPaid(len(wanted))
		}
		return err
	})
}

// rereads bounds how often what the ledger names turns out to be gone: another process may expire, or mend, it.
const rereads = 3

// Vectors gives the vectors of items, in their order, and pays for those that the ledger does not have.
func (s Source) Vectors(ctx context.Context, items []Item) ([][]float32, error) {
	if !s.Embedder.Info().Paid {
		vectors, _, err := s.Embedder.Embed(ctx, textsOf(items))
		return vectors, err
	}
	for range rereads {
		keys, objects, err := s.findObjects(ctx, items)
		if err != nil {
			return nil, err
		}
		vectors, err := s.Ledger.ReadVectors(ctx, keys, objects)
		if err != nil {
			return nil, err
		}
		var lost []Item
		for i, vector := range vectors {
			if vector == nil {
				lost = append(lost, items[i])
			}
		}
		if len(lost) == 0 {
			return vectors, nil
		}
		if err := s.Pay(ctx, lost); err != nil {
			return nil, err
		}
	}
	return nil, fault.SegmentDamage.At("read embeddings", fmt.Sprintf("of %d texts", len(items))).
		Because("an entry that was written to the ledger is missing").
		Advise("check whether another program deletes objects under ledger/embed")
}

// keysOf returns the keys of items in the ledger: their digests, in the embedder's domain.
func (s Source) keysOf(items []Item) []core.Digest {
	domain := s.Embedder.Info().Domain
	keys := make([]core.Digest, len(items))
	for i, it := range items {
		keys[i] = ledger.ScopeKey(domain, it.Digest)
	}
	return keys
}

// findObjects returns the keys of items and the objects that hold their vectors, zero where none does.
func (s Source) findObjects(ctx context.Context, items []Item) (keys, objects []core.Digest, err error) {
	keys = s.keysOf(items)
	ledger.NoteKeys(ctx, ledger.Embed, keys...)
	objects, err = s.Ledger.FindTexts(ctx, keys)
	return keys, objects, err
}

func textsOf(items []Item) []string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = it.Text
	}
	return texts
}

// storeVectors asks the model and stores what it answers. A request that the model rejects is halved until the text at
// fault is alone; that one is cut. What one half cost is stored before the other is asked for.
func (s Source) storeVectors(ctx context.Context, items []Item) error {
	_, err := s.tryStore(ctx, items)
	return err
}

// tryStore does what storeVectors does, and reports whether the model took the texts in one request.
func (s Source) tryStore(ctx context.Context, items []Item) (whole bool, err error) {
	var vectors [][]float32
	known := len(items) > s.maxTexts()
	if !known {
		if vectors, err = s.requestVectors(ctx, textsOf(items)); err == nil {
			return true, s.Ledger.PutVectors(ctx, s.keysOf(items), vectors)
		}
		if !maySplit(err) {
			return false, err
		}
	}
	if half := len(items) / 2; half > 0 {
		first, err := s.tryStore(ctx, items[:half])
		if err != nil {
			return false, err
		}
		second, err := s.tryStore(ctx, items[half:])
		// None of them is at fault: they were too many. Of a few it is the words rather than the texts that were.
		if first && second && err == nil && !known && half >= fewTexts {
			s.takesAtMost(len(items) - half)
		}
		return false, err
	}
	if vectors, err = s.embedBeginning(ctx, items[0].Text, err); err == nil {
		return false, s.Ledger.PutVectors(ctx, s.keysOf(items), vectors)
	}
	if !maySplit(err) {
		return false, err
	}
	return false, fault.CodeOf(err).
		At("embed", items[0].Key).
		Because(err).
		Advise("exclude the document that contains this text, or use another embedding model")
}

// embedBeginning asks for the beginning of a text that the model rejects as a whole. A server that refuses may have
// refused anybody for a while: once it serves the beginning, it is asked for the whole again, as what is stored stays.
func (s Source) embedBeginning(ctx context.Context, text string, rejected error) ([][]float32, error) {
	short := Fit(text, rejectedTokens)
	if len(short) == len(text) {
		return nil, rejected
	}
	vectors, err := s.requestVectors(ctx, []string{short})
	if err != nil || !fault.Is(rejected, fault.ModelRefused) {
		return vectors, err
	}
	whole, err := s.requestVectors(ctx, []string{text})
	if err == nil || !maySplit(err) {
		return whole, err
	}
	return vectors, nil
}

// maySplit reports whether fewer or shorter texts may be served: a server may say in any words that there are too many.
func maySplit(err error) bool {
	return err != nil && (fault.KindOf(err) == fault.Content || fault.Is(err, fault.ModelRefused))
}

// rejectedTokens is what is asked for of a text that the model rejects as a whole.
const rejectedTokens = 256

func (s Source) requestVectors(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	err = retry.Do(ctx, func(ctx context.Context) error {
		var err error
		vectors, _, err = s.Embedder.Embed(ctx, texts)
		return err
	})
	return vectors, err
}
