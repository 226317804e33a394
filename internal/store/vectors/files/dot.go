package files

// dot8Go is the inner product of two int8 vectors.
func dot8Go(a, b []int8) int32 {
	var s0, s1, s2, s3 int32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += int32(a[i]) * int32(b[i])
		s1 += int32(a[i+1]) * int32(b[i+1])
		s2 += int32(a[i+2]) * int32(b[i+2])
		s3 += int32(a[i+3]) * int32(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += int32(a[i]) * int32(b[i])
	}
	return s0 + s1 + s2 + s3
}

// dot32 is the inner product in float64 order-fixed arithmetic, so that equal inputs score equal everywhere.
func dot32(vector, b []float32) float32 {
	var s0, s1, s2, s3 float64
	b = b[:len(vector)]
	i := 0
	for ; i+4 <= len(vector); i += 4 {
		s0 += float64(vector[i]) * float64(b[i])
		s1 += float64(vector[i+1]) * float64(b[i+1])
		s2 += float64(vector[i+2]) * float64(b[i+2])
		s3 += float64(vector[i+3]) * float64(b[i+3])
	}
	for ; i < len(vector); i++ {
		s0 += float64(vector[i]) * float64(b[i])
	}
	return float32(s0 + s1 + s2 + s3)
}

// quantise maps a vector to int8 with one scale: v ≈ scale * q.
func quantise(vector []float32, q []int8) (scale float32) {
	var m float32
	for _, x := range vector {
		if x < 0 {
			x = -x
		}
		m = max(m, x)
	}
	if m == 0 {
		return 0
	}
	scale = m / 127
	f := 127 / m
	for i, x := range vector {
		y := x * f
		if y >= 0 {
			y += 0.5
		} else {
			y -= 0.5
		}
		q[i] = int8(y)
	}
	return scale
}
