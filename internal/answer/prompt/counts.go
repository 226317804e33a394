package prompt

import (
	"crypto/sha256"
	"sync"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// mostCounts are remembered, in about a megabyte.
const mostCounts = 10_000

// counts remembers how many tokens passages have: the same ones are found again, and counting them is a large part of
// what a query of long ones costs.
var counts countCache

// countCache remembers counts by the digest of what was counted. The zero value is ready.
type countCache struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]int
}

// countTokens returns tokens.Count of a text, which it keeps.
func (c *countCache) countTokens(text string) int {
	digest := sha256.Sum256([]byte(text))
	c.mu.Lock()
	n, ok := c.known[digest]
	c.mu.Unlock()
	if ok {
		return n
	}
	n = tokens.Count(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[[sha256.Size]byte]int{}
	}
	for old := range c.known { // any other goes for it
		if len(c.known) < mostCounts {
			break
		}
		delete(c.known, old)
	}
	c.known[digest] = n
	return n
}
