package files

import "golang.org/x/sys/cpu"

//go:noescape
func dot8avx2(a, b *int8, n int) int32

// dot8 is the inner product of two int8 vectors: AVX2 in blocks of 32, the rest in Go.
func dot8(a, b []int8) int32 {
	n := len(a) &^ 31
	if n == 0 || !cpu.X86.HasAVX2 {
		return dot8Go(a, b)
	}
	return dot8avx2(&a[0], &b[0], n) + dot8Go(a[n:], b[n:len(a)])
}
