package extract

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/names"
	"github.com/unweaver/unweaver/internal/rows"
	"github.com/unweaver/unweaver/internal/spill"
	"github.com/unweaver/unweaver/internal/wire"
)

// SealIn is what ends a shard.
type SealIn struct {
	Spec    corpus.Spec
	Art     artifact.Index
	Scratch string
	Shard   Shard
	Batches int
	Paid    bool
	Ledger  *ledger.Ledger
	Beat    func(chunks int64)
}

// SealResult is sealed-<shard>.json.
type SealResult struct {
	Shard     Shard          `json:"shard"`
	Extract   corpus.Segment `json:"extract"`
	Fresh     bool           `json:"fresh"`
	Chunks    int64          `json:"chunks"`
	Mentions  int64          `json:"mentions"`
	Fallbacks int64          `json:"fallbacks"`
}

// MentionsKey is the scratch file of a shard's mentions, sorted by class id, in chunk order within a class.
func MentionsKey(scratch string, shard int) string {
	return fmt.Sprintf("%s/mentions-%05d.rows", scratch, shard)
}

// Seal joins the batches of a shard.
func Seal(ctx context.Context, in SealIn) (SealResult, error) {
	res := SealResult{Shard: in.Shard}
	seg, err := artifact.NewRows()
	if err != nil {
		return res, err
	}
	defer seg.Discard()
	var sorter spill.Sorter
	defer sorter.Close()
	var keys []corpus.Digest
	for b := range in.Batches {
		for row, err := range artifact.ScanAll(ctx, in.Art.Store, BatchKey(in.Scratch, in.Shard.Number, b)) {
			if err != nil {
				return res, err
			}
			d := wire.Dec{B: row.Value}
			m := mentioner{chunk: corpus.ID(row.Key), number: res.Chunks, document: d.S(), ordinal: int(d.U()), parity: in.Spec.Parity}
			title, lead := d.S(), d.S()
			if d.Err != nil {
				return res, d.Err
			}
			seg.Append(string(row.Key), d.B)
			x, err := rows.DecodeExtract(d.B)
			if err != nil {
				return res, err
			}
			res.Mentions += m.mentions(x, title, lead, &sorter)
			res.Chunks++
			if x.Fallback != "" {
				res.Fallbacks++
			}
			if in.Paid {
				keys = append(keys, x.Key)
			}
			if res.Chunks%64 == 0 {
				in.Beat(res.Chunks)
			}
		}
	}
	if res.Extract, res.Fresh, err = seg.Segment(ctx, in.Art, in.Shard.Number); err != nil {
		return res, err
	}
	if in.Paid {
		if _, err := in.Ledger.Pack(ctx, ledger.Extract, keys); err != nil {
			return res, err
		}
	}
	return res, writeMentions(ctx, in, &sorter)
}

func writeMentions(ctx context.Context, in SealIn, sorter *spill.Sorter) error {
	w, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer w.Discard()
	for kv, err := range sorter.Sorted() {
		if err != nil {
			return err
		}
		w.Append(string(kv[0]), kv[1])
	}
	return w.Scratch(ctx, in.Art.Store, MentionsKey(in.Scratch, in.Shard.Number))
}

// mentioner makes the mentions of one chunk.
type mentioner struct {
	chunk    corpus.ID
	number   int64
	document string
	ordinal  int
	parity   bool
}

// mentions adds the title at position -1, unless an entity has its name, and the entities in the model's order.
func (m mentioner) mentions(x rows.Extract, title, lead string, s *spill.Sorter) int64 {
	keys := make([]string, len(x.Entities))
	titleKey := names.Key(title, m.parity)
	n := int64(0)
	wanted := !m.parity && title != ""
	for i, e := range x.Entities {
		keys[i] = names.Key(e.Name, m.parity)
		wanted = wanted && keys[i] != titleKey
	}
	add := func(key string, r rows.Mention) {
		if key == "" {
			return
		}
		id := corpus.ClassID(key)
		r.Chunk, r.Number, r.Document, r.Ordinal = m.chunk, m.number, m.document, m.ordinal
		s.Add(id[:], r.Encode())
		n++
	}
	if wanted {
		add(titleKey, rows.Mention{Position: rows.TitlePosition, Surface: title, Description: lead})
	}
	for i, e := range x.Entities {
		add(keys[i], rows.Mention{Position: i, Surface: e.Name, Description: e.Description, Fallback: x.Fallback != ""})
	}
	return n
}
