package pdf_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document/pdf"
)

// A stream of a few kilobytes may unpack to ranges of all codes, again and again: read whole, they take minutes.
func TestOverlappingRangesOfCodesAreReadOnce(t *testing.T) {
	found := pdf.CollectionOf([]byte(strings.Repeat("<0000><ffff>1\n", 75_000)))
	assert.True(t, len(found) == 1<<16 && found[0x8000] == 0x8001, "%d codes, %d", len(found), found[0x8000])
}
