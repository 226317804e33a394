package files

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/unweaver/unweaver/internal/store/vectors"
)

//go:noescape
func dotsAVX2(question *int16, rows *int8, out *int32, dim, blocks, count, ahead int)

//go:noescape
func dotExactAVX2(a, b *float32, blocks int, sums *[4]float64)

//go:noescape
func sumsAVX2(tables, signs *byte, bytes int, out *[rowsAtOnce]uint16)

//go:noescape
func columnSumsAVX2(
	tables *byte, offsets *uint32, levels *byte, pairs, groups int, out *groupSums,
	ahead *uint32, aheads int,
)

//go:noescape
func fetchAhead(from *float32, lines int)

//go:noescape
func overAVX2(sums *[rowsAtOnce]uint16, factors *float32, step, least, floor float32) uint32

// rowsOver reports which rows the estimate is not below a floor: a bit for each, the lowest for the first.
func (t *tables) rowsOver(sums *[rowsAtOnce]uint16, factors []float32, floor float32) uint32 {
	if !cpu.X86.HasAVX2 || len(factors) < rowsAtOnce {
		return t.overGo(sums, factors, floor)
	}
	return overAVX2(sums, &factors[0], t.step, t.least, floor)
}

// sumTables adds up, for each of 32 rows whose signs are interleaved, what the tables say of them.
func sumTables(tables, signs []byte, out *[rowsAtOnce]uint16) {
	if !cpu.X86.HasAVX2 || len(signs) == 0 {
		sumsGo(tables, signs, out)
		return
	}
	_ = tables[len(signs)-1]
	sumsAVX2(&tables[0], &signs[0], len(signs)/rowsAtOnce, out)
}

// prefetchRow says that a row is read soon.
func prefetchRow(row []float32) {
	if lines := len(row) / 16; lines > 0 {
		fetchAhead(&row[0], lines)
	}
}

// columnSums adds to the sums of groups of rows what the tables say of their levels: at each offset 32 bytes a group.
// What begins at the offsets ahead is read next.
func columnSums(tables []byte, offsets []uint32, levels []byte, out []groupSums, ahead []uint32) {
	if !cpu.X86.HasAVX2 || len(offsets) == 0 || len(offsets)%2 == 1 || len(out) == 0 {
		columnSumsGo(tables, offsets, levels, out)
		return
	}
	_, _ = tables[levelsOfCode*len(offsets)-1], levels[int(slices.Max(offsets))+rowsAtOnce*len(out)-1]
	columnSumsAVX2(&tables[0], &offsets[0], &levels[0], len(offsets)/2, len(out), &out[0],
		unsafe.SliceData(ahead), len(ahead))
}

// dotsAhead gives the inner products of a question with rows that follow each other: AVX2 in blocks of 32, the rest in
// Go. What lies so many bytes ahead of a row is brought near while the row is multiplied.
func dotsAhead(question []int16, rows []int8, out []int32, ahead int) {
	dim := len(question)
	blocks := dim / 32
	if blocks == 0 || !cpu.X86.HasAVX2 || len(out) == 0 {
		dotsGo(question, rows, out)
		return
	}
	_ = rows[len(out)*dim-1]
	dotsAVX2(&question[0], &rows[0], &out[0], dim, blocks, len(out), ahead)
	if done := 32 * blocks; done < dim {
		for i := range out {
			out[i] += dot16Go(question[done:], rows[i*dim+done:(i+1)*dim])
		}
	}
}

// dot32 returns the inner product in float64 arithmetic of fixed order, so that equal inputs score equal everywhere.
func dot32(a, b []float32) float32 {
	blocks := len(a) / 4
	if blocks == 0 || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return vectors.Dot(a, b)
	}
	b = b[:len(a)]
	var sums [4]float64
	dotExactAVX2(&a[0], &b[0], blocks, &sums)
	for i := 4 * blocks; i < len(a); i++ {
		sums[0] += float64(a[i]) * float64(b[i])
	}
	return float32(sums[0] + sums[1] + sums[2] + sums[3])
}
