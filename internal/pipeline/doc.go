// Package pipeline holds the tests of whole builds, in which the packages run, unit, release and upkeep work together.
package pipeline
