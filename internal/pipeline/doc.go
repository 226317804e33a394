// Package pipeline holds the tests of a whole build, in which its rooms run, unit, release and upkeep work together.
package pipeline
