package plan

import "testing"

// CutAt has the corpora of a test cut into ranges of so many documents of the parent.
func CutAt(t testing.TB, documents int64) {
	was := leastRange
	leastRange = documents
	t.Cleanup(func() { leastRange = was })
}
