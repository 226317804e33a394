// Package unit is what each activity of a build does: plan what has to be built and why (planning.go), compare the
// generation before with what is stored (parent.go), chunk, extract, reduce and shorten (units.go), embed, load and
// import (vectors.go), write splits and class runs (splits.go, pieces.go), merge them (merging.go), and enrich.
package unit
