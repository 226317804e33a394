//go:build race

package main_test

// raced tells that the race detector is on: it sees nothing of what other processes build.
const raced = true
