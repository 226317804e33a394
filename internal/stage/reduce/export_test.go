package reduce

import "testing"

// SetFanIn has so many files be merged at once, and little be sorted in memory, for one test.
func SetFanIn(t testing.TB, files int) {
	was, wasBytes := fanIn, sortBytes
	t.Cleanup(func() { fanIn, sortBytes = was, wasBytes })
	fanIn, sortBytes = files, 4<<10
}
