//go:build !amd64

package files

// dots gives the inner products of a question with rows that follow each other.
func dots(question []int16, rows []int8, out []int32) { dotsGo(question, rows, out) }

// dot32 is the inner product in float64 arithmetic of fixed order, so that equal inputs score equal everywhere.
func dot32(a, b []float32) float32 { return dot32Go(a, b) }

// sums adds up, for each of 32 rows whose signs are interleaved, what the tables say of them.
func sums(tables, signs []byte, out *[rowsAtOnce]uint16) { sumsGo(tables, signs, out) }
