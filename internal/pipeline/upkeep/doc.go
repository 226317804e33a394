// Package upkeep keeps what is stored correct. Audit and restore compare the stores with the artifacts, purge removes a
// document from everything, backfill pays for chosen documents beside the builds, and estimate says in advance what a
// build costs.
package upkeep
