package document

import "testing"

// Limit lowers the bounds of whole files and rows for one test.
func Limit(t *testing.T, bytes int) {
	t.Helper()
	whole, row := maxWhole, maxRow
	maxWhole, maxRow = int64(bytes), bytes
	t.Cleanup(func() { maxWhole, maxRow = whole, row })
}
