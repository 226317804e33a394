// Package stage lists the stages of a build in order, and holds the few types that they share. Each stage is a package
// of its own, without Temporal in it. Stages never import each other: they exchange row files in the run's scratch
// folder, and segments.
//
//	plan     corpus listing, versions, diff          -> plan.rows, units
//	chunk    documents to chunks, a unit each        -> text and documents segments, chunks-<unit>.rows
//	extract  chunks to entities, a batch each        -> extract-<shard>-<batch>.rows, then the extract segment
//	                                                    and mentions-<shard>.rows
//	reduce   mentions to classes, a partition each   -> mentions segment, reduced-<partition>.rows
//	shorten  long class texts                        -> short-<partition>.rows
//	embed    new vectors of classes and of chunks    -> the ledger
//	load     vectors, rows, records                  -> vectors and classes segments, the stores
//	segment  what queries read                       -> splits and class runs
//	verify   everything written is there             -> (rewrites what is missing)
//	publish  manifest, gates, the flip of the pointer
//	collect  what nothing names any more
//
// A stage has In, Result and Run. In.OnProgress, where there is one, receives the absolute numbers of this attempt; it
// may be nil. Stages count what they did, what they wrote and what the ledger answered. What models are paid is counted
// where they are called, so that the sum is right even if a batch fails.
package stage
