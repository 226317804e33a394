// Package pipeline is the life of a build without the engine that drives it: who may build (lease), what it is made from
// (plan, fingerprints), what each unit of a stage reads and writes (units), what it may pay (control, accounts, meter),
// how it becomes a generation (draft, publish), and what it tells (state, report). Package activities gives each of
// these to the engine; tests give them memory stores.
//
// Files, in the order of a build:
//
//	ports.go      what every run works with, and a run as one unit of work sees it
//	scratch.go    the files of a run: one list of names, one type each
//	lease.go      one builder of an index at a time
//	control.go    pause, cancel, budget: the record that every unit and every paid call looks at
//	account.go    what a process did for a run, in absolute numbers; budgets over all processes
//	planning.go   what has to be built, and why
//	parent.go     what of the generation before is missing or damaged
//	stores.go     stores that lost their memory
//	units.go      chunk, extract, reduce, shorten
//	vectors.go    embed, load, import
//	draft.go      segments and the manifest
//	publish.go    verify, gates, the flip
//	collect.go    what nothing names any more
//	report.go     how a run stands and how it ended
//	backfill.go   payments for chosen documents, beside builds
//	restore.go    stores filled again from the artifacts
package pipeline
