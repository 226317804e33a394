// Package upkeep keeps what is stored right: audit and restore compare stores with the artifacts, purge takes a
// document out of everything, backfill pays for chosen documents beside builds, and estimate says beforehand what a
// build costs.
package upkeep
