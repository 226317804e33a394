package extract

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text/names"
)

// SealIn is what ends a shard. OnProgress receives chunks done; nil is allowed.
type SealIn struct {
	Spec       core.Spec
	Artifacts  artifact.Index
	Scratch    string
	Shard      Shard
	Batches    int
	Batch      func(ctx context.Context, batch int) (Result, error) // result of one
	Paid       bool
	Ledger     *ledger.Ledger
	OnProgress func(core.Progress)
}

// SealResult is sealed-<shard>.json.
type SealResult struct {
	Shard     Shard        `json:"shard"`
	Extract   core.Segment `json:"extract"`
	Fresh     bool         `json:"fresh"`
	Chunks    int64        `json:"chunks"`
	Mentions  int64        `json:"mentions"`
	Fallbacks int64        `json:"fallbacks"`
	Refused   int64        `json:"refused,omitempty"` // of them, those that the next run asks for again
	Failed    []Failed     `json:"failed,omitempty"`  // the first MaxFailed of the fallbacks

	// Kept are the mentions, sorted by class id, in chunk order within a class: a segment that later builds read.
	Kept core.Segment `json:"kept,omitzero"`
}

// MaxFailed is how many failed chunks of a shard its result names; a report names the first hundred of all.
const MaxFailed = 100

// Failed is a chunk from which nothing was extracted; its dead letter holds the cause.
type Failed struct {
	Chunk    string `json:"chunk"`
	Document string `json:"document"`
	Ordinal  int    `json:"ordinal"`
	Reason   string `json:"reason"`
}

// countFailed counts a chunk from which nothing was extracted.
func (r *SealResult) countFailed(of mentioner, reason string) {
	r.Fallbacks++
	if reason == string(fault.ModelRefused) {
		r.Refused++
	}
	if len(r.Failed) < MaxFailed {
		r.Failed = append(r.Failed, Failed{of.chunk.String(), of.document, of.ordinal, reason})
	}
}

// Seal joins the batches of a shard.
func Seal(ctx context.Context, in SealIn) (SealResult, error) {
	res := SealResult{Shard: in.Shard}
	seg, err := artifact.NewRows()
	if err != nil {
		return res, err
	}
	defer seg.Discard()
	var sorter extsort.Sorter
	defer sorter.Close()
	var paid extsort.Sorter // ledger entries of the shard
	defer paid.Close()
	for batch, err := range parallel.MapOrdered(ctx, loadWidth, parallel.Numbers(in.Batches), in.loadBatch) {
		if err != nil {
			return res, err
		}
		if err := in.joinBatch(ctx, &res, batch, seg, &sorter, &paid); err != nil {
			return res, err
		}
	}
	if res.Extract, res.Fresh, err = seg.StoreSegment(ctx, in.Artifacts, in.Shard.Number); err != nil {
		return res, err
	}
	if err := packEntries(ctx, &paid, in.Ledger); err != nil {
		return res, err
	}
	return res, writeMentions(ctx, in, &res, &sorter)
}

// loadWidth is how many batches are read at once, and ahead of the one that is joined.
const loadWidth = 16

// sealed is a batch as it is stored.
type sealed struct {
	rows *artifact.Reader
	paid *artifact.Reader // nil: the model costs nothing
}

// loadBatch reads a batch.
func (in SealIn) loadBatch(ctx context.Context, batch int) (sealed, error) {
	var out sealed
	result, err := in.Batch(ctx, batch)
	if err != nil {
		return out, err
	}
	rowsKey := artifact.ScratchKey(BatchKey(in.Scratch, in.Shard.Number, batch), result.Rows)
	paidKey := artifact.ScratchKey(PaidKey(in.Scratch, in.Shard.Number, batch), result.Paid)
	err = parallel.Each(ctx, 2, 2, func(ctx context.Context, i int) (err error) {
		switch {
		case i == 0:
			out.rows, err = artifact.Load(ctx, in.Artifacts.Store, rowsKey)
		case in.Paid:
			out.paid, err = artifact.Load(ctx, in.Artifacts.Store, paidKey)
		}
		return err
	})
	return out, err
}

// joinBatch takes a batch in.
func (in SealIn) joinBatch(
	ctx context.Context, res *SealResult, batch sealed, seg *artifact.Rows, sorter, paid *extsort.Sorter,
) error {
	for row, err := range batch.rows.Scan(ctx, 0, -1) {
		if err != nil {
			return err
		}
		dec := rowfile.Dec{B: row.Value}
		labels := core.Everybody
		if in.Spec.ReadAs().Labels.IsOn() {
			labels = core.LabelSet(dec.S())
		}
		m := mentioner{
			chunk:    core.ID(row.Key),
			number:   res.Chunks,
			document: dec.S(),
			ordinal:  int(dec.U()),
			parity:   in.Spec.Parity,
			aliases:  in.Spec.Names,
			labels:   labels,
		}
		title, lead := dec.S(), dec.S()
		if dec.Err != nil {
			return dec.Err
		}
		seg.Append(string(row.Key), dec.B)
		extract, err := rows.DecodeExtract(dec.B)
		if err != nil {
			return err
		}
		res.Mentions += m.addMentions(extract, title, lead, sorter)
		res.Chunks++
		if extract.Fallback != "" {
			res.countFailed(m, extract.Fallback)
		}
		if res.Chunks%64 == 0 {
			stage.ReportProgress(in.OnProgress, core.Progress{Stage: "extract", Done: res.Chunks})
		}
	}
	return addPaid(ctx, paid, batch.paid)
}

// addPaid adds the ledger entries of a batch.
func addPaid(ctx context.Context, to *extsort.Sorter, file *artifact.Reader) error {
	if file == nil {
		return nil
	}
	for row, err := range file.Scan(ctx, 0, -1) {
		if err != nil {
			return err
		}
		if len(row.Key) != len(core.Digest{}) {
			return fault.SegmentDamage.At("read ledger entries of", "a batch").Because("a key has another length")
		}
		to.Add(row.Key, row.Value)
	}
	return nil
}

// packEntries makes a pack of ledger entries.
func packEntries(ctx context.Context, paid *extsort.Sorter, into *ledger.Ledger) error {
	if into == nil {
		return nil
	}
	entries := func(yield func(ledger.Stored, error) bool) {
		for row, err := range paid.StreamSorted() {
			if err != nil {
				yield(ledger.Stored{}, err)
				return
			}
			if !yield(ledger.Stored{Key: core.Digest(row[0]), Value: row[1]}, nil) {
				return
			}
		}
	}
	_, err := into.PackEntries(ctx, ledger.Extract, entries)
	return err
}

func writeMentions(ctx context.Context, in SealIn, res *SealResult, sorter *extsort.Sorter) error {
	w, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer w.Discard()
	for kv, err := range sorter.StreamSorted() {
		if err != nil {
			return err
		}
		w.Append(string(kv[0]), kv[1])
	}
	res.Kept, _, err = w.StoreSegment(ctx, in.Artifacts, in.Shard.Number)
	return err
}

// mentioner makes the mentions of one chunk.
type mentioner struct {
	chunk    core.ID
	number   int64
	document string
	ordinal  int
	parity   bool
	aliases  core.Aliases
	labels   core.LabelSet
}

// addMentions adds the title at position -1, unless an entity is of its class, and the entities in the model's order. A
// name that is an alias is of the class of the one that stands for it, with its own surface.
func (m mentioner) addMentions(extract rows.Extract, title, lead string, sorter *extsort.Sorter) int64 {
	keys := make([]string, len(extract.Entities))
	titleKey := m.keyOf(title)
	n := int64(0)
	wanted := !m.parity && title != ""
	for i, e := range extract.Entities {
		keys[i] = m.keyOf(e.Name)
		wanted = wanted && keys[i] != titleKey
	}
	add := func(key string, mention rows.Mention) {
		if key == "" {
			return
		}
		id := core.FragmentID(key, m.labels)
		mention.Chunk, mention.Number, mention.Document, mention.Ordinal = m.chunk, m.number, m.document, m.ordinal
		sorter.Add(id[:], mention.Encode())
		n++
	}
	if wanted {
		add(titleKey, rows.Mention{Position: rows.TitlePosition, Surface: title, Description: lead})
	}
	for i, e := range extract.Entities {
		add(keys[i], rows.Mention{
			Position: i, Surface: e.Name, Description: e.Description, Fallback: extract.Fallback != "", Type: e.Type,
		})
	}
	return n
}

func (m mentioner) keyOf(name string) string { return m.aliases.ResolveKey(names.Key(name, m.parity)) }
