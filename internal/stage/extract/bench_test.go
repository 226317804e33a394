package extract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stage/extract"
)

// An answer of ten entities, as language models give for a passage.
func BenchmarkParsing(b *testing.B) {
	entity := `{"name":"Some Entity","description":"` + strings.Repeat("what it does and since when. ", 4) + `"}`
	text := fmt.Sprintf(`{"entities":[%s]}`, strings.TrimSuffix(strings.Repeat(entity+",", 10), ","))
	b.ReportAllocs()
	for b.Loop() {
		_, _, ok := extract.Parse(text)
		require.True(b, ok, "not read")
	}
}
