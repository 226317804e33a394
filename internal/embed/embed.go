// Package embed gives the vectors of texts through the ledger: what was paid for is one object a request, named by
// the digests of its texts. Requests are cut by content, so that a retry, and a later run over much the same texts,
// asks for the same objects.
package embed

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/tokens"
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
	Key    string        // of the vector row
	Digest corpus.Digest // of the exact text and the fingerprint
	Text   string
}

// Digest of an embedded text.
func Digest(text string, fingerprint corpus.Digest) corpus.Digest {
	return corpus.Sum("vector/1", text, fingerprint.String())
}

// ChunkDigest covers all windows of a chunk.
func ChunkDigest(title, text string, fingerprint corpus.Digest) corpus.Digest {
	return corpus.Sum("chunk-vector/1", ChunkText(title, text), WindowRule, fingerprint.String())
}

// ChunkText is a chunk as it is embedded and indexed: title, empty line, text.
func ChunkText(title, text string) string { return title + "\n\n" + text }

// Windows cuts a chunk that is too long for the embedder: 150 words a window, step 110, the title in front of each.
func Windows(title, text string, maxTokens int) []string {
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

// A request has at most this much.
const (
	maxItems = 128
	maxRunes = 120_000
	minItems = 48
)

// Batches cuts a sequence into requests by content.
func Batches(src iter.Seq2[Item, error]) iter.Seq2[[]Item, error] {
	return func(yield func([]Item, error) bool) {
		var cur []Item
		n := 0
		for it, err := range src {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(cur) > 0 && n+len(it.Text) > maxRunes {
				if !yield(cur, nil) {
					return
				}
				cur, n = nil, 0
			}
			cur = append(cur, it)
			n += len(it.Text)
			if len(cur) >= maxItems || (len(cur) >= minItems && it.Digest[0] < 6) {
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

// Source embeds batches. What it pays for is counted where the model is called, not here.
type Source struct {
	Embedder model.Embedder
	Ledger   *ledger.Ledger
}

// Vectors gives the vectors of a batch, in its order. Of the progress it fills in ledger hits alone: one where the
// ledger had the batch and nothing was asked of the model.
func (s Source) Vectors(ctx context.Context, items []Item) ([][]float32, corpus.Progress, error) {
	progress := corpus.Progress{Stage: "embed"}
	if !s.Embedder.Info().Paid {
		vectors, _, err := s.Embedder.Embed(ctx, textsOf(items))
		return vectors, progress, err
	}
	vectors, paid, err := s.stored(ctx, items)
	if err == nil && !paid {
		progress.Hits.Embed = 1
	}
	return vectors, progress, err
}

// stored gives the vectors of items through the ledger and tells whether they had to be asked for.
func (s Source) stored(ctx context.Context, items []Item) ([][]float32, bool, error) {
	entry, paid, err := s.Ledger.Do(ctx, ledger.Embed, Key(items), 0, func(ctx context.Context) (ledger.Result, error) {
		vectors, err := s.ask(ctx, items)
		if err != nil {
			return ledger.Result{}, err
		}
		return ledger.Result{Value: encode(items, vectors)}, nil
	})
	if err != nil {
		return nil, false, err
	}
	vectors, err := decode(entry.Value, items)
	return vectors, paid, err
}

// Key is the ledger key of a request.
func Key(items []Item) corpus.Digest {
	names := make([]string, 1, len(items)+1)
	names[0] = "embed/1"
	for _, it := range items {
		names = append(names, it.Digest.String())
	}
	return corpus.Sum(names...)
}

func textsOf(items []Item) []string {
	texts := make([]string, len(items))
	for i, it := range items {
		texts[i] = it.Text
	}
	return texts
}

// ask asks the model. A request that the model rejects is halved until the text at fault is alone; that one is cut.
// Each half is a request with a ledger entry of its own, so that what one half cost is not lost when the other fails.
func (s Source) ask(ctx context.Context, items []Item) ([][]float32, error) {
	vectors, err := s.request(ctx, textsOf(items))
	if !splits(err) {
		return vectors, err
	}
	if half := len(items) / 2; half > 0 {
		first, _, err := s.stored(ctx, items[:half])
		if err != nil {
			return nil, err
		}
		second, _, err := s.stored(ctx, items[half:])
		return append(first, second...), err
	}
	if short := Fit(items[0].Text, rejectedTokens); len(short) < len(items[0].Text) {
		if vectors, err = s.request(ctx, []string{short}); !splits(err) {
			return vectors, err
		}
	}
	return nil, fault.CodeOf(err).
		At("embed", items[0].Key).
		Because(err).
		Advise("exclude the document that holds this text, or use another embedding model")
}

// splits tells whether fewer or shorter texts may be served: a server may say in any words that there are too many.
func splits(err error) bool {
	return err != nil && (fault.KindOf(err) == fault.Content || fault.Is(err, fault.ModelRefused))
}

// rejectedTokens is what is asked for of a text that the model rejects as a whole.
const rejectedTokens = 256

func (s Source) request(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	err = retry.Do(ctx, func(ctx context.Context) error {
		var err error
		vectors, _, err = s.Embedder.Embed(ctx, texts)
		return err
	})
	return vectors, err
}

// encode is the object of a request: u32 count, u32 dimension, digests, float32 rows, little endian.
func encode(items []Item, vectors [][]float32) []byte {
	dim := len(vectors[0])
	out := make([]byte, 0, 8+len(items)*(32+4*dim))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(items)))
	out = binary.LittleEndian.AppendUint32(out, uint32(dim))
	for _, it := range items {
		out = append(out, it.Digest[:]...)
	}
	for _, vector := range vectors {
		for _, x := range vector {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}

func decode(raw []byte, items []Item) ([][]float32, error) {
	bad := fault.SegmentDamage.At("read embeddings", fmt.Sprintf("of %d texts", len(items))).
		Because("the ledger object does not fit its texts").
		Advise("delete it under ledger/embed/loose")
	if len(raw) < 8 {
		return nil, bad
	}
	n, dim := int(binary.LittleEndian.Uint32(raw)), int(binary.LittleEndian.Uint32(raw[4:]))
	if n != len(items) || len(raw) != 8+n*(32+4*dim) {
		return nil, bad
	}
	vectors := make([][]float32, n)
	flat := make([]float32, n*dim)
	at := 8 + 32*n
	for i := range items {
		if corpus.Digest(raw[8+32*i:8+32*i+32]) != items[i].Digest {
			return nil, bad
		}
		vectors[i] = flat[i*dim : (i+1)*dim]
		for j := range dim {
			vectors[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[at:]))
			at += 4
		}
	}
	return vectors, nil
}
