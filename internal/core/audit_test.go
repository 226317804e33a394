package core_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// Each id is in exactly one part, and in the range that the part's bounds give.
// Promises: 50.
func TestThePartsOfAWholeHoldEachIDOnce(t *testing.T) {
	ids := []string{strings.Repeat("\x00", 16), strings.Repeat("\xff", 16), "\x55\x55\x55\x55\x55\x55\x55\x55\xff", // 1/3
		"\x55\x55\x55\x55\x55\x55\x55\x56", "\x80\x00\x00\x00\x00\x00\x00\x00", "\x7f\xff\xff\xff\xff\xff\xff\xff\xff"}
	for i := range 1000 {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		ids = append(ids, string(sum[:]))
	}
	for _, parts := range []int{1, 2, 3, 7, 10_000} {
		for _, id := range ids {
			held := 0
			for part := 1; part <= parts; part++ {
				sample := core.Sample{Part: part, Of: parts}
				from, to := sample.Bounds()
				if within := id >= from && (to == "" || id < to); within != sample.Holds([]byte(id)) {
					t.Fatalf("%s and %x: within its bounds %v, held %v", sample, id, within, !within)
				}
				if sample.Holds([]byte(id)) {
					held++
				}
			}
			require.True(t, held == 1, "%x is in %d of %d parts", id, held, parts)
		}
	}
}

func TestASampleIsReadAndWritten(t *testing.T) {
	for text, valid := range map[string]bool{
		"1/1": true, "3/7": true, "7/7": true, "0/7": false, "8/7": false, "1": false, "1/": false, "a/b": false,
		"-1/7": false, "1/7x": false, "1/10001": false, "": false,
	} {
		sample, err := core.ParseSample(text)
		assert.True(t, (err == nil) == valid && (!valid || sample.String() == text), "%q: %v, %v", text, sample, err)
	}
	assert.True(t, core.Everything.IsValid() && core.Everything.IsWhole() && !(core.Sample{Part: 1, Of: 2}).IsWhole(),
		"everything is not the whole, or a half is")
}
