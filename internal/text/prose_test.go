package text_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/text"
)

func TestProseIsWhatStandsInSentences(t *testing.T) {
	for _, line := range []string{
		"| words, fusion, walk | 12 ms |", "## How Berlin is built", `"chunk/2", "config: chunking")`,
		"unweaver index --wait docs", "$ make build", "chunk_size: 400", "return x.Find(a[i], b) == nil {",
		"```\nAnna met Bob.\n```",
	} {
		assert.Empty(t, strings.TrimSpace(text.KeepProse(line)), "%q is prose", line)
	}
	for _, line := range []string{
		"Ada Lovelace met Charles Babbage in London.", "`unweaver diff` compares two generations (of one index).",
		"Note: the Rhine flows through Basel and Cologne", "莱茵河流经巴塞尔。", "1999–2000 Premier League",
		"He was – in 1815 – born in Paris;\nhis sister (1817), too.",
	} {
		assert.Equal(t, line, text.KeepProse(line))
	}
}
