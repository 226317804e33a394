package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/unweaver/unweaver/internal/core"
)

func TestSizesAreDecimal(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 27_883_292: "28 MB", 5_250_000: "5.2 MB", 3_200_000_000_000_000: "3200 TB",
	} {
		got := core.FormatSize(bytes)
		assert.True(t, got == want, "%d: %s, want %s", bytes, got, want)
	}
}
