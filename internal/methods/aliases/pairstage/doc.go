// Package pairstage finds pairs of classes that may be one thing, and has a model decide them
// (docs/explain/methods.md). Steps:
//
//  1. Find compares the classes that are mentioned most, each with all others, and lets guards and people's file refuse
//     (internal/methods/aliases). With what a generation before it compared, it compares what is new.
//  2. Decide asks of the nearest pairs whether they are one, a call each, through the ledger.
//  3. File keeps what was compared and decided. What it holds depends on the classes, settings and models alone.
//
// Nothing is merged: people take a decision into their file of aliases.
package pairstage

// Rules is the version of everything here that shapes the file, beside prompt and models: a new one makes it again.
// pairs/1: first form.
const Rules = "pairs/1"
