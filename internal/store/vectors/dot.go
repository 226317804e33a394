package vectors

// Dot returns the inner product as stores of files score it: in float64, of four sums that are added at the end, so
// that equal vectors score equal everywhere.
func Dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return float32(s0 + s1 + s2 + s3)
}
