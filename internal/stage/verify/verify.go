// Package verify proves that what a generation names is in the stores: every row and record that the run wrote, by
// key, and a sample of what it re-used; all of it when a store lost its memory. What is missing is rewritten from
// segments. Restore is the same walk with nothing taken for granted.
package verify

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// In is what one activity works on. OnProgress is told of keys checked.
type In struct {
	Artifacts  artifact.Index
	Manifest   *corpus.Manifest
	Classes    records.Store
	Vectors    vectors.Store
	OnProgress func(done int64)
}

// Result counts what was checked and what had to be rewritten.
type Result struct {
	Checked   int64 `json:"checked"`
	Rewritten int64 `json:"rewritten"`
}

// batch of keys asked for at once.
const batch = 1000

// Records checks the class records of one classes segment.
func Records(ctx context.Context, in In, seg corpus.Segment) (Result, error) {
	var res Result
	var keys []string
	var values [][]byte
	flush := func() error {
		got, err := in.Classes.GetRecords(ctx, keys)
		if err != nil {
			return err
		}
		var lost []records.Record
		for i, v := range got {
			if string(v) != string(values[i]) {
				lost = append(lost, records.Record{Key: keys[i], Value: values[i]})
			}
		}
		res.Checked += int64(len(keys))
		res.Rewritten += int64(len(lost))
		keys, values = keys[:0], values[:0]
		in.OnProgress(res.Checked)
		return in.Classes.PutRecords(ctx, lost)
	}
	for row, err := range artifact.ScanAll(ctx, in.Artifacts.Store, in.Artifacts.SegmentKey(seg.SHA256)) {
		if err != nil {
			return res, err
		}
		class, err := rows.DecodeClass(row.Value)
		if err != nil {
			return res, err
		}
		keys = append(
			keys,
			corpus.RecordKey(
				in.Manifest.Store,
				in.Manifest.Index,
				corpus.ID(row.Key),
				rows.RecordDigest(class.Record),
			),
		)
		values = append(values, class.Record)
		if len(keys) == batch {
			if err := flush(); err != nil {
				return res, err
			}
		}
	}
	return res, flush()
}

// vectorRow mirrors the row of a vectors segment.
type vectorRow struct {
	Key    string    `parquet:"key"`
	Vector []float32 `parquet:"vector,list"`
}

// keyRow reads the keys alone.
type keyRow struct {
	Key string `parquet:"key"`
}

// openVectors opens a vectors segment; damaged is how its read errors are told.
func openVectors(
	ctx context.Context,
	in In,
	seg corpus.Segment,
) (file *parquet.File, damaged func(error) error, err error) {
	key := in.Artifacts.SegmentKey(seg.SHA256)
	damaged = func(err error) error {
		return fault.SegmentDamage.At("read vectors segment", in.Artifacts.Store.Location(key)).
			Because(err).
			Advise("publish another generation, or rebuild the index")
	}
	if file, err = parquet.OpenFile(artifact.ReaderAt(ctx, in.Artifacts.Store, key), seg.Bytes, parquet.ReadBufferSize(1<<20)); err != nil {
		err = damaged(err)
	}
	return file, damaged, err
}

// Vectors checks the rows of one vectors segment in a collection, making the collection where it is gone.
func Vectors(ctx context.Context, in In, seg corpus.Segment, collection string, dim int) (Result, error) {
	var res Result
	if err := in.Vectors.Create(ctx, collection, dim); err != nil {
		return res, err
	}
	file, damaged, err := openVectors(ctx, in, seg)
	if err != nil {
		return res, err
	}
	var lost []bool // by row; keys alone are read first, as vectors are rarely missing
	keys := parquet.NewGenericReader[keyRow](file)
	defer func() { _ = keys.Close() }()
	buf := make([]keyRow, batch)
	for {
		n, rerr := keys.Read(buf)
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return res, damaged(rerr)
		}
		names := make([]string, n)
		for i, r := range buf[:n] {
			names[i] = r.Key
		}
		has, err := in.Vectors.Has(ctx, collection, names)
		if err != nil {
			return res, err
		}
		for _, ok := range has {
			lost = append(lost, !ok)
			if !ok {
				res.Rewritten++
			}
		}
		res.Checked += int64(n)
		in.OnProgress(res.Checked)
		if errors.Is(rerr, io.EOF) {
			break
		}
	}
	if res.Rewritten == 0 {
		return res, nil
	}
	if err := rewrite(ctx, in, file, collection, lost); err != nil {
		if fault.As(err) == nil && ctx.Err() == nil {
			err = damaged(err)
		}
		return res, err
	}
	return res, nil
}

// Sample checks the first keys of a re-used vectors segment, and all of it when one of them is missing: a store that
// lost its memory lost more than a row.
func Sample(ctx context.Context, in In, seg corpus.Segment, collection string, dim int) (Result, error) {
	file, damaged, err := openVectors(ctx, in, seg)
	if err != nil {
		return Result{}, err
	}
	r := parquet.NewGenericReader[keyRow](file)
	defer func() { _ = r.Close() }()
	buf := make([]keyRow, 64)
	n, err := r.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, damaged(err)
	}
	names := make([]string, n)
	for i, k := range buf[:n] {
		names[i] = k.Key
	}
	if err := in.Vectors.Create(ctx, collection, dim); err != nil {
		return Result{}, err
	}
	has, err := in.Vectors.Has(ctx, collection, names)
	if err != nil || !slices.Contains(has, false) {
		return Result{Checked: int64(n)}, err
	}
	return Vectors(ctx, in, seg, collection, dim)
}

// rewrite writes the rows that the store has lost.
func rewrite(ctx context.Context, in In, f *parquet.File, collection string, lost []bool) error {
	reader := parquet.NewGenericReader[vectorRow](f)
	defer func() { _ = reader.Close() }()
	buf := make([]vectorRow, batch)
	var rows []vectors.Row
	for at := 0; ; {
		n, rerr := reader.Read(buf)
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return rerr
		}
		for i, x := range buf[:n] {
			if lost[at+i] {
				rows = append(rows, vectors.Row{Key: x.Key, Vector: append([]float32(nil), x.Vector...)})
			}
		}
		at += n
		in.OnProgress(int64(at))
		if len(rows) >= 4*batch || errors.Is(rerr, io.EOF) {
			if err := in.Vectors.Upsert(ctx, collection, rows); err != nil {
				return err
			}
			rows = nil
		}
		if errors.Is(rerr, io.EOF) {
			return nil
		}
	}
}
