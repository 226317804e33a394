//go:build !amd64

package kernel

// Name tells what multiplies on this machine.
var Name = "go"

func mul(out []int32, width int, a []int16, tokens, k int, panels []int16, n int) {
	Plain(out, width, a, tokens, k, panels, n)
}
