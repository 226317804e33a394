// Package run is a build as one activity sees it, without the engine that drives it. It decides who may build
// (lease.go, fence.go), what the build may pay for and whether it must stop (control.go, book.go, account.go). It keeps
// the files that activities leave for each other (scratch.go), and the progress of the build (run_state.go,
// progress.go). The packages unit, release and upkeep embed its Run.
package run
