package ledger

// SetMergedEntries makes merged packs small, and gives what undoes it.
func SetMergedEntries(n int) (undo func()) {
	old := mergedEntries
	mergedEntries = n
	return func() { mergedEntries = old }
}

// Remembered counts what a process remembers of the index of texts: answers, and texts of which it has vectors.
func (l *Ledger) Remembered() (answers, vectors int) {
	l.texts.mu.Lock()
	defer l.texts.mu.Unlock()
	for _, of := range l.texts.vectors {
		vectors += len(of)
	}
	return len(l.texts.answers), vectors
}
