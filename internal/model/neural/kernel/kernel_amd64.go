package kernel

import "golang.org/x/sys/cpu"

// Name tells what multiplies on this machine.
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

func mul(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	switch {
	case vnni:
		wide(out, width, a, tokens, k, panels, n)
	case avx2:
		narrow(out, width, a, tokens, k, panels, n)
	default:
		Plain(out, width, a, tokens, k, panels, n)
	}
}

func wide(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	for from := 0; from < n; from += Width {
		for t := 0; t < tokens; t += 8 {
			mul8VNNI(&out[t*width+from], width, &a[t*k], k, &panels[from*k], k/2)
		}
	}
}

func narrow(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	for from := 0; from < n; from += Width {
		for t := 0; t < tokens; t += 4 {
			mul4AVX2(&out[t*width+from], width, &a[t*k], k, &panels[from*k], k/2)
		}
	}
}

// mul8VNNI multiplies 8 tokens with a panel of 16 rows.
//
//go:noescape
func mul8VNNI(out *int32, width int, a *int16, k int, panel *int16, pairs int)

// mul4AVX2 multiplies 4 tokens with a panel of 16 rows.
//
//go:noescape
func mul4AVX2(out *int32, width int, a *int16, k int, panel *int16, pairs int)
