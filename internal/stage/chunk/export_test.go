package chunk

import "time"

// Process makes what follows another process's, which reads no document yet and keeps notes at another pace. It
// gives the pace and the process back that were before.
func Process(name string, noteAfter, renewEvery, staleAfter time.Duration) (back func()) {
	before := notes
	notes = pace{process: name, noteAfter: noteAfter, renewEvery: renewEvery, staleAfter: staleAfter}
	noted.Store(0)
	return func() { notes = before }
}

// Elsewhere has the process read another document whose note is written.
func Elsewhere() { noted.Add(1) }
