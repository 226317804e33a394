package reduce

import "testing"

// SetFanIn has so many files be merged at once for one test.
func SetFanIn(t testing.TB, files int) {
	was := fanIn
	t.Cleanup(func() { fanIn = was })
	fanIn = files
}
