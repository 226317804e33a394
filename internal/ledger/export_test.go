package ledger

// SetMergedEntries makes merged packs small, and gives what undoes it.
func SetMergedEntries(n int) (undo func()) {
	old := mergedEntries
	mergedEntries = n
	return func() { mergedEntries = old }
}
