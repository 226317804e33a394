package builtin_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/builtin"
)

// What these rules find in English passages is in indexes: where this sum changes, the version must.
// Promises: 75.
func TestNamesInEnglishAreThoseOfTheirVersion(t *testing.T) {
	const want = "5a8c8f351a0309263c772e8cc14553a8b8c5c4a71ac22466b36640d87f545dad"
	file, err := os.Open("../../../testdata/musique/corpus.jsonl")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	passages := 0
	for lines := bufio.NewScanner(file); lines.Scan(); passages++ {
		var passage struct{ Title, Text string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &passage))
		found, err := json.Marshal([]any{builtin.FindEntities(passage.Text), builtin.Summarize(passage.Text, 200)})
		require.NoError(t, err)
		_, _ = sum.Write(found) // never fails
	}
	got := hex.EncodeToString(sum.Sum(nil))
	assert.True(t, passages >= 100 && got == want, "%d passages have the sum %s by %s", passages, got, builtin.ChatModel)
}
