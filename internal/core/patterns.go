package core

import "strings"

// Bounds of a pattern on names of objects: its bytes, and in how many ways its alternatives can be chosen. All of them
// are tried on each name, one after the other, and nothing ends that.
const (
	longestPattern = 1000
	mostWays       = 1000
)

// PatternMistake says what is wrong with a pattern of Spec.Include or Spec.Exclude that is well formed; empty where
// nothing is.
func PatternMistake(pattern string) string {
	switch {
	case pattern == "":
		return "is no pattern"
	case len(pattern) > longestPattern:
		return "is longer than 1000 bytes"
	case waysOf(pattern) > mostWays:
		return "has alternatives that can be chosen in more than 1000 ways: write several patterns"
	case strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "./"):
		return "can match nothing: patterns are relative to the corpus, as docs/**"
	}
	return ""
}

// waysOf returns an upper bound of the ways in which the alternatives of a pattern can be chosen; escaped braces count
// too.
func waysOf(pattern string) int {
	ways := 1
	var open []int // alternatives of each group that is open
	for _, c := range pattern {
		switch n := len(open); {
		case c == '{':
			open = append(open, 1)
		case c == ',' && n > 0:
			open[n-1]++
		case c == '}' && n > 0:
			ways = min(ways*open[n-1], mostWays+1)
			open = open[:n-1]
		}
	}
	return ways
}
