package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	sampleRows = 64   // of a segment that is only sampled
	sampleRead = 4096 // rows of it that are read at most for them: others may not be live any more
	probeRows  = 16   // of each batch, whose vectors are compared and not the keys alone
	// closeEnough is the inner product over which two unit vectors are the same: stores may round them.
	closeEnough = 0.999
)

// segment is an open vectors segment with its collection.
type segment struct {
	In
	*stage.VectorFile
}

func openSegment(ctx context.Context, in In) (*segment, error) {
	if !in.ReadOnly {
		if err := in.Vectors.Create(ctx, in.Unit.Collection, in.Unit.Dimension); err != nil {
			return nil, err
		}
	}
	file, err := stage.OpenVectors(ctx, in.Artifacts, in.Unit.Segment)
	return &segment{in, file}, err
}

// checkVectors looks every key up, and compares some vectors of every batch; where one is wrong, all are compared, as
// they are where compare says so. The keys are read without their vectors first, as rows are rarely missing. Batches
// are asked for side by side.
func checkVectors(ctx context.Context, in In, compare bool) (Result, error) {
	var res Result
	s, err := openSegment(ctx, in)
	if err != nil {
		return res, err
	}
	var missing []bool // by row
	lost := int64(0)
	probes := !compare
	ask := func(ctx context.Context, batch keyBatch) (answered, error) { return s.checkBatch(ctx, batch, probes) }
	for found, err := range parallel.MapOrdered(ctx, batchesAtOnce, s.streamKeys(ctx), ask) {
		if err != nil {
			return res, s.DamageFault(ctx, err)
		}
		missing = append(missing, make([]bool, found.rows)...)
		for i, stored := range found.has {
			if !stored {
				missing[found.first+found.at[i]] = true
				lost++
			}
		}
		compare = compare || found.wrong
		res.Checked += int64(len(found.at))
		in.reportProgress(res) // also of a batch of which nothing is live: it gets on
	}
	if lost == 0 && !compare {
		return res, nil
	}
	differing, err := s.mendRows(ctx, missing, compare)
	if in.ReadOnly {
		res.Differing = differing
	} else {
		res.Rewritten = differing
	}
	return res, s.DamageFault(ctx, err)
}

// keyBatch is some rows of a segment.
type keyBatch struct {
	first, rows int
	keys        []string // of the live ones
	at          []int    // their places among the rows
}

// answered is a batch and what the store has of it.
type answered struct {
	keyBatch
	has   []bool // of keys; nil: not asked
	wrong bool   // a vector is another one
}

// streamKeys reads the keys of the segment, some at a time.
func (s *segment) streamKeys(ctx context.Context) iter.Seq2[keyBatch, error] {
	return func(yield func(keyBatch, error) bool) {
		first := 0
		for rows, err := range stage.ReadKeys(ctx, s.VectorFile) {
			batch := keyBatch{first: first, rows: len(rows)}
			for i, row := range rows {
				if s.isLive(row.Key) {
					batch.keys, batch.at = append(batch.keys, row.Key), append(batch.at, i)
				}
			}
			first += len(rows)
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// checkBatch looks the keys of a batch up, unless those that are missing will be reported with those that differ, and
// compares some of its vectors where it probes.
func (s *segment) checkBatch(ctx context.Context, batch keyBatch, probes bool) (answered, error) {
	out := answered{keyBatch: batch}
	if len(batch.keys) == 0 {
		return out, nil
	}
	return out, parallel.Each(ctx, 2, 2, func(ctx context.Context, i int) (err error) {
		switch {
		case i == 0 && !s.Compare:
			out.has, err = s.hasRows(ctx, batch.keys)
		case i == 1 && probes:
			out.wrong, err = s.probeVectors(ctx, batch.first+batch.at[0])
		}
		return err
	})
}

// checkSample looks at some live rows, from a place on that the seed chooses, and at all of them when one is missing or
// wrong: a store that lost something lost more than a row.
func checkSample(ctx context.Context, in In) (Result, error) {
	s, err := openSegment(ctx, in)
	if err != nil {
		return Result{}, err
	}
	sample, err := s.drawSample()
	if err != nil {
		return Result{}, s.DamageFault(ctx, err)
	}
	wrong, missing, err := s.findDiffering(ctx, sample)
	if err != nil {
		return Result{}, err
	}
	if len(wrong)+len(missing) > 0 {
		return checkVectors(ctx, in, len(wrong) > 0)
	}
	return Result{Checked: int64(len(sample))}, nil
}

// drawSample reads live rows from a place on, and from the beginning where the segment ends before there are enough.
func (s *segment) drawSample() ([]vectors.Row, error) {
	reader := stage.NewVectorReader(s.VectorFile)
	rows := s.CountRows()
	if rows == 0 {
		return nil, nil
	}
	place := core.Sum("sample", s.Seed, s.Unit.Segment.SHA256)
	start := int64(binary.BigEndian.Uint64(place[:8]) % uint64(rows))
	if s.Seed == "" {
		start = 0
	}
	if err := reader.SeekRow(start); err != nil {
		return nil, err
	}
	var sample []vectors.Row
	buffer := make([]stage.VectorRow, sampleRows)
	for at, left := start, min(rows, sampleRead); left > 0 && len(sample) < sampleRows; {
		n, err := reader.Read(buffer[:min(left, rows-at, sampleRows)])
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		found := s.copyLive(buffer[:n])
		sample = append(sample, found[:min(len(found), sampleRows-len(sample))]...)
		at, left = at+int64(n), left-int64(n)
		switch {
		case at >= rows:
			at = 0
			if err := reader.SeekRow(0); err != nil {
				return nil, err
			}
		case n == 0: // it gives fewer rows than it says
			return nil, io.ErrUnexpectedEOF
		}
	}
	return sample, nil
}

// probeVectors compares the vectors of the first rows of a batch that starts at a row, and reports whether one is
// wrong.
func (s *segment) probeVectors(ctx context.Context, start int) (bool, error) {
	reader := stage.NewVectorReader(s.VectorFile)
	if err := reader.SeekRow(int64(start)); err != nil {
		return false, s.DamageFault(ctx, err)
	}
	buffer := make([]stage.VectorRow, probeRows)
	n, err := reader.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, s.DamageFault(ctx, err)
	}
	wrong, _, err := s.findDiffering(ctx, s.copyLive(buffer[:n]))
	return len(wrong) > 0, err
}

// copyLive copies the rows that are live: a batch is valid until the next one.
func (s *segment) copyLive(batch []stage.VectorRow) []vectors.Row {
	var out []vectors.Row
	for _, row := range batch {
		if s.isLive(row.Key) {
			out = append(out, vectors.Row{Key: row.Key, Vector: append([]float32(nil), row.Vector...)})
		}
	}
	return out
}

// findDiffering returns the rows that the store has with another vector, and those that it does not have.
func (s *segment) findDiffering(ctx context.Context, want []vectors.Row) (wrong, missing []vectors.Row, err error) {
	if len(want) == 0 {
		return nil, nil, nil
	}
	keys := make([]string, len(want))
	for i, row := range want {
		keys[i] = row.Key
	}
	stored, err := s.fetchVectors(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	for i, vector := range stored {
		switch {
		case vector == nil:
			missing = append(missing, want[i])
		case !isClose(vector, want[i].Vector):
			wrong = append(wrong, want[i])
		}
	}
	return wrong, missing, nil
}

// hasRows says of each key whether its row is stored. To one who only reads, a collection that is not there holds none.
func (s *segment) hasRows(ctx context.Context, keys []string) ([]bool, error) {
	has, err := s.Vectors.Has(ctx, s.Unit.Collection, keys)
	if s.ReadOnly && fault.Is(err, fault.NotFound) {
		return make([]bool, len(keys)), nil
	}
	return has, err
}

// fetchVectors gives the vectors of keys; nil for one that is absent or damaged.
func (s *segment) fetchVectors(ctx context.Context, keys []string) ([][]float32, error) {
	stored, err := s.Vectors.Fetch(ctx, s.Unit.Collection, keys)
	if s.ReadOnly && fault.Is(err, fault.NotFound) {
		return make([][]float32, len(keys)), nil
	}
	if !fault.Is(err, fault.SegmentDamage) {
		return stored, err
	}
	has, err := s.Vectors.Has(ctx, s.Unit.Collection, keys)
	if err != nil {
		return nil, err
	}
	var whole []string
	for i, key := range keys {
		if has[i] {
			whole = append(whole, key)
		}
	}
	found, err := s.Vectors.Fetch(ctx, s.Unit.Collection, whole)
	if err != nil {
		return nil, err
	}
	stored = make([][]float32, len(keys))
	for i := range keys {
		if has[i] {
			stored[i], found = found[0], found[1:]
		}
	}
	return stored, nil
}

func isClose(stored, want []float32) bool {
	if len(stored) != len(want) {
		return false
	}
	var product float64
	for i := range stored {
		product += float64(stored[i]) * float64(want[i])
	}
	return product >= closeEnough
}

// rewriteRows are written at once.
const rewriteRows = 4 * batchKeys

// mendRows writes the rows that are missing and, on request, those that differ, and gives how many these are. None is
// reported or written before the segment is found whole. A row under its key never changes for a store, so that a wrong
// one is deleted first: right before it is written again, also where the segment cannot be read any further. One who
// only reads gets no more than these reports.
func (s *segment) mendRows(ctx context.Context, missing []bool, compare bool) (int64, error) {
	var lost, spoiled []vectors.Row // those of spoiled are in lost
	var written int64
	flush := func() error {
		if len(lost) == 0 {
			return nil
		}
		if !s.ReadOnly {
			if err := s.deleteRows(ctx, spoiled); err != nil {
				return err
			}
			if err := s.Vectors.Upsert(ctx, s.Unit.Collection, lost); err != nil {
				return err
			}
		}
		written += int64(len(lost))
		lost, spoiled = nil, nil
		return nil
	}
	at, whole := 0, false
	for batch, err := range stage.ReadVectors(ctx, s.VectorFile) {
		if err != nil {
			if failed := flush(); failed != nil { // these were reported as written
				err = failed
			}
			return written, err
		}
		var wrong, absent []vectors.Row
		if compare {
			if wrong, absent, err = s.findDiffering(ctx, s.copyLive(batch)); err != nil {
				return written, err
			}
		} else {
			for i := range batch {
				if missing[at+i] {
					absent = append(absent, s.copyLive(batch[i:i+1])...)
				}
			}
		}
		if len(wrong)+len(absent) > 0 && !whole {
			if err := stage.CheckVectors(ctx, s.Artifacts, s.Unit.Segment, func() { s.reportProgress(Result{}) }); err != nil {
				return written, err
			}
			whole = true
		}
		spoiled = append(spoiled, wrong...)
		s.reportRows(wrong, true)
		s.reportRows(absent, false)
		lost = append(append(lost, wrong...), absent...)
		at += len(batch)
		s.reportProgress(Result{Checked: int64(len(missing) + at)})
		if len(lost) >= rewriteRows {
			if err := flush(); err != nil {
				return written, err
			}
		}
	}
	return written, flush()
}

func (s *segment) reportRows(rows []vectors.Row, wrong bool) {
	for _, row := range rows {
		s.reportFinding(row.Key, wrong)
	}
}

func (s *segment) deleteRows(ctx context.Context, wrong []vectors.Row) error {
	if len(wrong) == 0 {
		return nil
	}
	keys := make([]string, len(wrong))
	for i, row := range wrong {
		keys[i] = row.Key
	}
	return s.Vectors.Delete(ctx, s.Unit.Collection, keys)
}

// isLive reports whether a row is wanted, and the generation still has it: its key holds the digest of the class or
// chunk as it is now.
func (s *segment) isLive(key string) bool {
	if s.Within != nil {
		name, _, _ := strings.Cut(key, "-")
		if id, err := core.ParseID(name); err != nil || !s.Within(id) {
			return false
		}
	}
	return s.Live == nil || RowCounts(s.Live, key)
}

// RowCounts reports whether a vector row is of a class or of a chunk as a generation has it.
func RowCounts(table Table, key string) bool {
	parts := strings.Split(key, "-") // <class id>-<digest>, or <chunk id>-<window>-<digest>
	id, err := core.ParseID(parts[0])
	switch {
	case err != nil:
		return false
	case len(parts) == 2:
		class, counts := table.FindClass(id)
		return counts && core.ClassRowOf(id, class.Vector) == key
	case len(parts) == 3:
		chunk, counts := table.FindChunk(id)
		window, err := strconv.Atoi(parts[1])
		return err == nil && counts && window < chunk.Windows && core.ChunkRow(id, window, chunk.Digest) == key
	}
	return false
}
