package plan

import "github.com/unweaver/unweaver/internal/stream/extsort"

// What happened to a content, as the value of a row of planner.contents.
var (
	came = []byte{'+'}
	went = []byte{'-'}
)

// countMoved counts contents that left under one key and came under another: of each version as many as did both.
func countMoved(contents *extsort.Sorter) (int64, error) {
	var moved, arrived, gone int64
	var version string
	for pair, err := range contents.StreamSorted() {
		if err != nil {
			return 0, err
		}
		if string(pair[0]) != version {
			moved += min(arrived, gone)
			version, arrived, gone = string(pair[0]), 0, 0
		}
		if pair[1][0] == came[0] {
			arrived++
		} else {
			gone++
		}
	}
	return moved + min(arrived, gone), nil
}
