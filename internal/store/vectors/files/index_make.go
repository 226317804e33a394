package files

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/stream/durable"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	measuredRows = 24    // questions: so many rows, and so many sums of two
	wantedRecall = 0.995 // of the best rows
	worthIt      = 8     // an index for which more than 1/worthIt of the rows must be looked at is none
)

// keptPerAsked rows are looked at by their codes for each one asked for, at least, however well the questions went; by
// the place in indexedAsks.
var keptPerAsked = [len(indexedAsks)]int{8, 8, 8, 8}

// writeIndex makes the file of an index durably, under another name first, and gives the end of its name. It depends on
// nothing but the rows, and is made in the file itself: what is held in memory does not grow with them.
func writeIndex(ctx context.Context, p *part) (end string, err error) {
	end, fill := indexEnd, fillSigns
	if p.isConcentrated() {
		end, fill = columnsEnd, fillColumns
	}
	return end, writeIndexFile(ctx, p, p.indexPath(end), fill)
}

func writeIndexFile(
	ctx context.Context, p *part, path string, fill func(context.Context, *part, *os.File) error,
) error {
	return wrapError("write", path, durable.Replace(path, durable.PrivateFile, func(file *os.File) error {
		return fill(ctx, p, file)
	}))
}

// fillSigns writes an index by signs.
func fillSigns(ctx context.Context, p *part, file *os.File) error {
	if err := makeSigns(ctx, p, file); err != nil {
		return err
	}
	_, _, size := indexSections(p)
	return measureWritten(file, size, func(data []byte) (measures, []byte, error) {
		keep, err := measureRows(ctx, p, signsIn(p, data), rowQuestions(p, 2*measuredRows), keptPerAsked)
		return keep, headOf(indexMagic, p, keep), err
	})
}

// fillColumns writes an index by columns.
func fillColumns(ctx context.Context, p *part, file *os.File) error {
	fitted := p.fittedLevels()
	if err := makeColumns(ctx, p, fitted, file); err != nil {
		return err
	}
	questions := append(rowQuestions(p, measuredRows), mixedQuestions(p)...)
	return measureWritten(file, columnsSize(p), func(data []byte) (measures, []byte, error) {
		made := columnsIn(p, data)
		made.values = fitted.values // which the file does not say yet
		keep, err := measureRows(ctx, p, made, questions, columnsPerAsked)
		return keep, columnsHeadOf(p, keep, fitted.values), err
	})
}

// measureWritten maps what was written of an index, has it measured where it lies, and writes what is known then: the
// header and the checksum. Of an index that is of no use only that it is stays, so that none is made at each load.
func measureWritten(
	file *os.File, size int, measure func(data []byte) (measures, []byte, error),
) error {
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(data) }()
	keep, head, err := measure(data)
	if err != nil {
		return err
	}
	if keep == (measures{}) {
		size, head = indexHead, head[:indexHead]
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data[len(head):size])
	if err := file.Truncate(int64(size)); err != nil {
		return err
	}
	if _, err := file.WriteAt(head, 0); err != nil {
		return err
	}
	_, err = file.WriteAt(binary.LittleEndian.AppendUint32(nil, sum), int64(size))
	return err
}

// exactOf returns a row as its codes give it.
func (p *part) exactOf(row int) []float32 {
	out := make([]float32, p.dim)
	p.exactInto(row, out)
	return out
}

func (p *part) exactInto(row int, out []float32) {
	for i, code := range p.codesAt(row) {
		out[i] = float32(code) * p.scales[row]
	}
}

// blocksPerJob is how many blocks of rows are turned and written at once.
const blocksPerJob = 32

// makeSigns rotates the rows of a part, takes their signs, and writes these and the factors to their places in a file.
func makeSigns(ctx context.Context, p *part, file *os.File) error {
	_, _, size := indexSections(p)
	if err := file.Truncate(int64(size)); err != nil {
		return err
	}
	turn := newRotation(p.dim)
	jobs := (countBlocks(p.n) + blocksPerJob - 1) / blocksPerJob
	workers := min(runtime.GOMAXPROCS(0), jobs)
	return parallel.Each(ctx, workers, workers, func(ctx context.Context, worker int) error {
		maker := newSignMaker(p, turn, file)
		for job := worker; job < jobs; job += workers {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := maker.writeSigns(job * blocksPerJob * rowsAtOnce); err != nil {
				return err
			}
		}
		return nil
	})
}

// signMaker is one who makes signs, with the room for those of a job.
type signMaker struct {
	*part
	turn        *rotation
	file        *os.File
	vector      []float32
	signs       []byte
	factors     []float32
	interleaved []byte
}

func newSignMaker(p *part, turn *rotation, file *os.File) *signMaker {
	width := signBytes(p.dim)
	return &signMaker{
		part: p, turn: turn, file: file, vector: make([]float32, p.dim), signs: make([]byte, width),
		factors:     make([]float32, blocksPerJob*rowsAtOnce),
		interleaved: make([]byte, blocksPerJob*rowsAtOnce*width),
	}
}

// writeSigns makes the signs of the rows of a job, which begins with a row.
func (m *signMaker) writeSigns(low int) error {
	rows := min(m.n-low, blocksPerJob*rowsAtOnce)
	width := len(m.signs)
	interleaved := m.interleaved[:width*rowsAtOnce*countBlocks(rows)]
	clear(interleaved) // what fills up the last block is zero
	for i := range rows {
		m.exactInto(low+i, m.vector)
		m.turn.rotateVector(m.vector)
		m.factors[i] = signsOf(m.vector, m.signs)
		block := interleaved[i/rowsAtOnce*rowsAtOnce*width:]
		for j, b := range m.signs {
			block[rowsAtOnce*j+i%rowsAtOnce] = b
		}
	}
	factorsAt, signsAt, _ := indexSections(m.part)
	_, err := m.file.WriteAt(bytesOf(m.factors[:rows]), int64(factorsAt+4*low))
	if err == nil {
		_, err = m.file.WriteAt(interleaved, int64(signsAt+low*width))
	}
	return err
}

// sketch is what an index says of its rows.
type sketch interface {
	// estimateRows gives estimates of the scores of all rows, as a search for n of them makes them, in the order of the
	// rows: those of some that begin with a row at once, which are valid until the next.
	estimateRows(question []float32, n int, each func(low int, estimates []float32))
	// precisionAt says how precise those for n rows are: equal numbers, equal estimates.
	precisionAt(n int) int
}

// measureRows finds how many rows must be looked at by their codes to find the wanted share of the best, and at least
// so many for each that is asked for.
func measureRows(
	ctx context.Context, p *part, of sketch, questions []question, perAsked [len(indexedAsks)]int,
) (keep measures, err error) {
	ranks := make([][len(indexedAsks)][]int, len(questions))
	err = parallel.Each(ctx, len(questions), runtime.GOMAXPROCS(0), func(_ context.Context, q int) error {
		ranks[q] = p.rankRows(of, questions[q])
		return nil
	})
	if err != nil {
		return keep, err
	}
	for a, ask := range indexedAsks {
		var all []int
		for q := range ranks {
			all = append(all, ranks[q][a]...)
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		needed := max(perAsked[a]*ask, 1+all[int(wantedRecall*float64(len(all)-1))])
		if needed*worthIt <= p.n {
			keep[a] = needed
		}
	}
	return keep, nil
}

// question is one that an index is measured with, and the rows that it is made of, which are left out: they would be
// found anyhow, and who asks has no such rows.
type question struct {
	vector []float32
	from   []int
}

// rowQuestions returns rows, at even distances in the order of their keys, and sums of two of them: who asks may ask
// for two things at once.
func rowQuestions(p *part, most int) []question {
	n := min(p.n, most)
	var out []question
	for i := range n {
		from := []int{i * p.n / n, (i + 1) % n * p.n / n}
		asked := question{p.exactOf(from[0]), from[:1]}
		if i%2 == 1 {
			for j, x := range p.exactOf(from[1]) {
				asked.vector[j] += x
			}
			asked.from = from
		}
		if slices.ContainsFunc(asked.vector, func(x float32) bool { return x != 0 }) {
			out = append(out, asked)
		}
	}
	return out
}

// rankRows gives for each of indexedAsks the places that the best rows of all have in the order of the estimates.
func (p *part) rankRows(of sketch, asked question) (out [len(indexedAsks)][]int) {
	rows := p.bestRows(asked)
	var places []int
	for a, ask := range indexedAsks {
		if a == 0 || of.precisionAt(ask) != of.precisionAt(indexedAsks[a-1]) {
			places = p.findPlaces(of, asked, ask, rows)
		}
		out[a] = places[:min(ask, len(rows))]
	}
	return out
}

// findPlaces gives the places that rows have in the order of the estimates of a search for n.
func (p *part) findPlaces(of sketch, asked question, n int, rows []ranked) []int {
	if len(rows) == 0 {
		return nil
	}
	inOrder := make([]int, len(rows)) // places in rows, by the number of the row
	for i := range inOrder {
		inOrder[i] = i
	}
	slices.SortFunc(inOrder, func(a, b int) int { return cmp.Compare(rows[a].row, rows[b].row) })
	estimates := make([]float32, len(rows)) // of the best rows
	of.estimateRows(asked.vector, n, func(low int, block []float32) {
		for len(inOrder) > 0 && int(rows[inOrder[0]].row) < low+len(block) {
			estimates[inOrder[0]] = block[int(rows[inOrder[0]].row)-low]
			inOrder = inOrder[1:]
		}
	})
	known := slices.Sorted(slices.Values(estimates))
	better := make([]int, len(known)+1) // how many estimates lie above so many of the known ones, and not above more
	of.estimateRows(asked.vector, n, func(_ int, block []float32) {
		for _, estimate := range block {
			if estimate > known[0] {
				at, _ := slices.BinarySearch(known, estimate)
				better[at]++
			}
		}
	})
	for i := len(better) - 2; i >= 0; i-- {
		better[i] += better[i+1]
	}
	places := make([]int, len(rows))
	for i, estimate := range estimates {
		at, _ := slices.BinarySearch(known, estimate)
		places[i] = better[at+1]
	}
	return places
}

// bestRows gives the rows that are best by their codes, the best first, as many as anybody asks an index for.
func (p *part) bestRows(asked question) []ranked {
	query := coarseQuestion(asked.vector)
	found := newBest(indexedAsks[len(indexedAsks)-1], new(floors))
	var products [rowsPerBlock]int32
	for low := 0; low < p.n; low += rowsPerBlock {
		high := min(low+rowsPerBlock, p.n)
		dotRows(query.numbers, p.q[low*p.dim:high*p.dim], products[:high-low])
		for i, product := range products[:high-low] {
			if row := low + i; !slices.Contains(asked.from, row) {
				found.add(int32(row), float32(product)*p.scales[row])
			}
		}
	}
	rows := found.keptRows()
	slices.SortFunc(rows, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.estimate, a.estimate), cmp.Compare(a.row, b.row))
	})
	return rows
}

// precisionAt implements sketch.
func (*signed) precisionAt(int) int { return 0 }

// estimateRows implements sketch.
func (s *signed) estimateRows(question []float32, _ int, each func(low int, estimates []float32)) {
	tables := newRotation(s.p.dim).buildTables(question)
	width := signBytes(s.p.dim)
	var summed [rowsAtOnce]uint16
	var estimates [rowsAtOnce]float32
	for low := 0; low < s.p.n; low += rowsAtOnce {
		sumTables(tables.bytes, s.signs[low*width:(low+rowsAtOnce)*width], &summed)
		rows := min(rowsAtOnce, s.p.n-low)
		for i := range rows {
			estimates[i] = tables.estimateScore(summed[i], s.factors[low+i])
		}
		each(low, estimates[:rows])
	}
}
