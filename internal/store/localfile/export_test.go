package localfile

import "os"

// WriteTo makes the cache write its downloads to a file that make gives.
func (c *Cache) WriteTo(makeFile func() (*os.File, error)) { c.create = makeFile }

// Remembered is how many contents the cache keeps anything about in memory.
func (c *Cache) Remembered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.busy) + len(c.mapped) + len(c.stale)
}
