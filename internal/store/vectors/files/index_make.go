package files

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/unweaver/unweaver/internal/store/durable"
	"github.com/unweaver/unweaver/internal/stream/par"
)

const (
	measuredRows = 24    // questions: so many rows, and so many sums of two
	wantedRecall = 0.995 // of the best rows
	keptPerAsked = 8     // at least, however well the questions went
	worthIt      = 8     // an index for which more than 1/worthIt of the rows must be looked at is none
)

// writeIndex makes the file of an index durably, under another name first. It depends on nothing but the rows.
func writeIndex(ctx context.Context, p *part) error {
	made, err := makeSigns(ctx, p)
	if err == nil {
		made.keep, err = made.measure(ctx)
	}
	if err != nil {
		return err
	}
	path := p.indexPath()
	file, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return wrap("write", path, err)
	}
	writer := bufio.NewWriterSize(file, 1<<20)
	err = made.write(writer)
	if err == nil {
		err = writer.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		_ = os.Remove(path + ".tmp")
		return wrap("write", path, err)
	}
	return wrap("sync the folder of", path, durable.SyncFolder(filepath.Dir(path)))
}

// exactOf is a row as its codes tell it.
func (p *part) exactOf(row int) []float32 {
	out := make([]float32, p.dim)
	for i, code := range p.quantised(row) {
		out[i] = float32(code) * p.scales[row]
	}
	return out
}

// makeSigns rotates the rows of a part and takes their signs.
func makeSigns(ctx context.Context, p *part) (*signed, error) {
	width, turn := signBytes(p.dim), newRotation(p.dim)
	made := &signed{
		p:       p,
		factors: make([]float32, p.n),
		signs:   make([]byte, rowsAtOnce*width*blocks(p.n)),
	}
	const blocksPerJob = 32
	jobs := (blocks(p.n) + blocksPerJob - 1) / blocksPerJob
	err := par.Each(ctx, jobs, runtime.GOMAXPROCS(0), func(_ context.Context, job int) error {
		signs := make([]byte, width)
		low := job * blocksPerJob * rowsAtOnce
		for row := low; row < min(p.n, low+blocksPerJob*rowsAtOnce); row++ {
			vector := p.exactOf(row)
			turn.turn(vector)
			made.factors[row] = signsOf(vector, signs)
			block := made.signs[row/rowsAtOnce*rowsAtOnce*width:]
			for i, b := range signs {
				block[rowsAtOnce*i+row%rowsAtOnce] = b
			}
		}
		return nil
	})
	return made, err
}

// measure finds how many rows must be looked at by their codes to find the wanted share of the best.
func (s *signed) measure(ctx context.Context) (keep measures, err error) {
	questions := s.questions()
	ranks := make([][len(indexedAsks)][]int, len(questions))
	turn := newRotation(s.p.dim)
	err = par.Each(ctx, len(questions), runtime.GOMAXPROCS(0), func(_ context.Context, q int) error {
		ranks[q] = s.ranks(turn, questions[q])
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
		needed := max(keptPerAsked*ask, 1+all[int(wantedRecall*float64(len(all)-1))])
		if needed*worthIt <= s.p.n {
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

// questions are rows, at even distances in the order of their keys, and sums of two of them: who asks may ask for two
// things at once.
func (s *signed) questions() []question {
	n := min(s.p.n, 2*measuredRows)
	var out []question
	for i := range n {
		from := []int{i * s.p.n / n, (i + 1) % n * s.p.n / n}
		asked := question{s.p.exactOf(from[0]), from[:1]}
		if i%2 == 1 {
			for j, x := range s.p.exactOf(from[1]) {
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

// ranks gives for each of indexedAsks the places that the best rows of all have in the order of the signs.
func (s *signed) ranks(turn *rotation, asked question) (out [len(indexedAsks)][]int) {
	scores, estimates := s.scored(turn, asked.vector)
	found := newBest(indexedAsks[len(indexedAsks)-1])
	for row, score := range scores {
		if !slices.Contains(asked.from, row) {
			found.add(int32(row), score)
		}
	}
	rows := found.kept()
	if len(rows) == 0 {
		return out
	}
	slices.SortFunc(rows, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.estimate, a.estimate), cmp.Compare(a.row, b.row))
	})
	known := make([]float32, len(rows)) // the estimates of the best rows
	for i, row := range rows {
		known[i] = estimates[row.row]
	}
	slices.Sort(known)
	better := make([]int, len(known)+1) // how many estimates lie above so many of the known ones, and not above more
	for _, estimate := range estimates {
		if estimate > known[0] {
			at, _ := slices.BinarySearch(known, estimate)
			better[at]++
		}
	}
	for i := len(better) - 2; i >= 0; i-- {
		better[i] += better[i+1]
	}
	for a, ask := range indexedAsks {
		for _, row := range rows[:min(ask, len(rows))] {
			at, _ := slices.BinarySearch(known, estimates[row.row])
			out[a] = append(out[a], better[at+1])
		}
	}
	return out
}

// scored gives the scores of all rows by their codes, and the estimates by their signs.
func (s *signed) scored(turn *rotation, question []float32) (scores, estimates []float32) {
	p, query, tables := s.p, coarseQuestion(question), turn.tables(question)
	scores, estimates = make([]float32, p.n), make([]float32, blocks(p.n)*rowsAtOnce)
	var products [rowsPerBlock]int32
	for low := 0; low < p.n; low += rowsPerBlock {
		high := min(low+rowsPerBlock, p.n)
		dots(query.numbers, p.q[low*p.dim:high*p.dim], products[:high-low])
		for i, product := range products[:high-low] {
			scores[low+i] = float32(product) * p.scales[low+i]
		}
	}
	width := rowsAtOnce * signBytes(p.dim)
	var summed [rowsAtOnce]uint16
	for block := range blocks(p.n) {
		sums(tables.bytes, s.signs[block*width:(block+1)*width], &summed)
		for i := range min(rowsAtOnce, p.n-block*rowsAtOnce) {
			row := block*rowsAtOnce + i
			estimates[row] = tables.estimate(summed[i], s.factors[row])
		}
	}
	return scores, estimates[:p.n]
}
