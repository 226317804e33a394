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

// Source embeds batches.
type Source struct {
	Embedder model.Embedder
	Ledger   *ledger.Ledger
	Price    float64 // per million tokens
}

// Vectors gives the vectors of a batch and what was paid for them.
func (s Source) Vectors(ctx context.Context, items []Item) ([][]float32, corpus.Progress, error) {
	progress := corpus.Progress{Stage: "embed"}
	texts := make([]string, len(items))
	names := make([]string, len(items)+1)
	names[0] = "embed/1"
	for i, it := range items {
		texts[i] = it.Text
		names[i+1] = it.Digest.String()
	}
	if !s.Embedder.Info().Paid {
		vs, _, err := s.Embedder.Embed(ctx, texts)
		return vs, progress, err
	}
	key := corpus.Sum(names...)
	entry, _, err := s.Ledger.Do(ctx, ledger.Embed, key, 0, func(ctx context.Context) (ledger.Result, error) {
		vs, used, calls, err := s.embed(ctx, items, texts)
		progress.Calls.Embed += calls
		progress.Tokens.Embedding += used
		progress.Cost += float64(used) * s.Price / 1e6
		if err != nil {
			return ledger.Result{}, err
		}
		return ledger.Result{Value: encode(items, vs)}, nil
	})
	if err != nil {
		return nil, progress, err
	}
	if progress.Calls.Embed == 0 {
		progress.Hits.Embed++
	}
	vs, err := decode(entry.Value, items)
	return vs, progress, err
}

// embed asks the model. A request that the model rejects is halved until the text at fault is alone; that one is cut.
func (s Source) embed(
	ctx context.Context,
	items []Item,
	texts []string,
) (vs [][]float32, used, calls int64, err error) {
	var usage model.Usage
	err = retry.Do(ctx, func(ctx context.Context) error {
		var err error
		vs, usage, err = s.Embedder.Embed(ctx, texts)
		return err
	})
	if err == nil {
		if used = usage.Prompt; used == 0 {
			for _, t := range texts {
				used += int64(tokens.Count(t))
			}
		}
		return vs, used, 1, nil
	}
	if fault.KindOf(err) != fault.Content {
		return nil, 0, 0, err
	}
	if len(texts) > 1 {
		h := len(texts) / 2
		vectors, u1, c1, err := s.embed(ctx, items[:h], texts[:h])
		if err != nil {
			return nil, u1, c1, err
		}
		z, u2, c2, err := s.embed(ctx, items[h:], texts[h:])
		return append(vectors, z...), u1 + u2, c1 + c2, err
	}
	if short := Fit(texts[0], 256); len(short) < len(texts[0]) {
		return s.embed(ctx, items, []string{short})
	}
	return nil, 0, 0, fault.CodeOf(err).
		At("embed", items[0].Key).
		Because(err).
		Advise("exclude the document that holds this text, or use another embedding model")
}

// encode is the object of a request: u32 count, u32 dimension, digests, float32 rows, little endian.
func encode(items []Item, vs [][]float32) []byte {
	dim := len(vs[0])
	out := make([]byte, 0, 8+len(items)*(32+4*dim))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(items)))
	out = binary.LittleEndian.AppendUint32(out, uint32(dim))
	for _, it := range items {
		out = append(out, it.Digest[:]...)
	}
	for _, v := range vs {
		for _, x := range v {
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
	vs := make([][]float32, n)
	flat := make([]float32, n*dim)
	at := 8 + 32*n
	for i := range items {
		if corpus.Digest(raw[8+32*i:8+32*i+32]) != items[i].Digest {
			return nil, bad
		}
		vs[i] = flat[i*dim : (i+1)*dim]
		for j := range dim {
			vs[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[at:]))
			at += 4
		}
	}
	return vs, nil
}
