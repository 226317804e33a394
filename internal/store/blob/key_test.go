package blob_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Names come from documents, from stored files and from any client of the engine.
// Promises: 138.
func TestNoKeyLeadsOutOfItsStore(t *testing.T) {
	for _, key := range []string{"a", "a/b.md", ".tmp", "..a", "a..", "a/..b/c", "...", "a//b", `a\..\b`, "ü/ß"} {
		assert.NoError(t, blob.CheckKey(key), "%q", key)
	}
	for _, key := range []string{"", "/", "/etc/passwd", "//a", ".", "..", "./a", "../a", "a/..", "a/.", "a/../b", "a/./b",
		"a/../../b", "a\x00b"} {
		err := blob.CheckKey(key)
		assert.True(t, fault.Is(err, fault.InvalidParam), "%q is taken: %v", key, err)
	}
}
