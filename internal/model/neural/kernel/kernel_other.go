//go:build !amd64

package kernel

// Name tells what multiplies on this machine.
var Name = "go"

func mul(out []int32, a []uint8, tokens, k int, panels []int8, start []int32, n int) {
	Plain(out, a, tokens, k, panels, start, n)
}
