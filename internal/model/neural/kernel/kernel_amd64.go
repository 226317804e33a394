package kernel

import "golang.org/x/sys/cpu"

// Name says what multiplies on this machine.
var Name = func() string {
	switch {
	case vnni:
		return "avx512-vnni"
	case avx2:
		return "avx2"
	}
	return "go"
}()

var (
	vnni = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VNNI
	avx2 = cpu.X86.HasAVX2
)

func mulPanels(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	switch {
	case vnni:
		mulWide(out, a, tokens, k, panels, start, n)
	case avx2:
		mulNarrow(out, a, tokens, k, panels, start, n)
	default:
		MulPlain(out, a, tokens, k, panels, start, n)
	}
}

func mulWide(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	for from := 0; from < n; from += Width {
		for t := 0; t < tokens; t += 8 {
			mul8VNNI(&out[t*n+from], n, &a[t*k], k, &panels[from*k], &start[from])
		}
	}
}

func mulNarrow(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	for from := 0; from < n; from += Width {
		for t := 0; t < tokens; t += 2 {
			mul2AVX2(&out[t*n+from], n, &a[t*k], k, &panels[from*k], &start[from])
		}
	}
}

// mul8VNNI multiplies 8 tokens with a panel.
//
//go:noescape
func mul8VNNI(out *int32, n int, a *uint8, k int, panel *int8, start *int32)

// mul2AVX2 multiplies 2 tokens with a panel.
//
//go:noescape
func mul2AVX2(out *int32, n int, a *uint8, k int, panel *int8, start *int32)
