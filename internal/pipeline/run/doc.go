// Package run is a build as one unit of work sees it, without the engine that drives it: who may build (lease.go,
// fence.go), what it may pay and whether it must stop (control.go, book.go, account.go), the files that its units leave
// for each other (scratch.go), and how far it is (standing.go, progress.go). The rooms above it embed its Run: unit
// does the work of each activity, release makes a generation of it, upkeep keeps what is stored.
package run
