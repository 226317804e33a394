package ledger

// SetMergedEntries makes merged packs small, and gives what undoes it.
func SetMergedEntries(n int) (undo func()) {
	old := mergedEntries
	mergedEntries = n
	return func() { mergedEntries = old }
}

// SetMostRuns has builds write packs of the index of so many texts, and merge more runs than most; it gives what undoes
// that.
func SetMostRuns(most, perPack int) (undo func()) {
	oldRuns, oldTexts := mostRuns, sealTexts
	mostRuns, sealTexts = most, perPack
	return func() { mostRuns, sealTexts = oldRuns, oldTexts }
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

// Runs returns how many runs of the index of texts are open.
func (l *Ledger) Runs() int { return l.packs.packsOf(Texts).countRuns() }
