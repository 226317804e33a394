//go:build !amd64

package files

import "github.com/unweaver/unweaver/internal/store/vectors"

// dotsAhead gives the inner products of a question with rows that follow each other.
func dotsAhead(question []int16, rows []int8, out []int32, _ int) { dotsGo(question, rows, out) }

// dot32 returns the inner product in float64 arithmetic of fixed order, so that equal inputs score equal everywhere.
func dot32(a, b []float32) float32 { return vectors.Dot(a, b) }

// sumTables adds up, for each of 32 rows whose signs are interleaved, what the tables say of them.
func sumTables(tables, signs []byte, out *[rowsAtOnce]uint16) { sumsGo(tables, signs, out) }

// prefetchRow says that a row is read soon.
func prefetchRow([]float32) {}

// columnSums adds to the sums of groups of rows what the tables say of their levels: at each offset 32 bytes a group.
func columnSums(tables []byte, offsets []uint32, levels []byte, out []groupSums, _ []uint32) {
	columnSumsGo(tables, offsets, levels, out)
}

// rowsOver reports which rows the estimate is not below a floor: a bit for each, the lowest for the first.
func (t *tables) rowsOver(sums *[rowsAtOnce]uint16, factors []float32, floor float32) uint32 {
	return t.overGo(sums, factors, floor)
}
