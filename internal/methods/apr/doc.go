// Package apr holds the algorithms of AutoPrunedRetriever ("Pruning Minimal Reasoning Graphs for Efficient
// Retrieval-Augmented Generation"): text is triples, a triple is three numbers of a codebook, and what is retrieved are
// runs, short sequences of triples that belong together. It is pure: no model, no store, no clock.
//
//  1. Without a model, triples are found by rule (rules.go), and numbered in a codebook (codebook.go).
//  2. Runs: a document's triples are cut where one does not fit the run so far; borders are then looked at again
//     (segment.go).
//  3. Coarse: a run's score is that of its best entity and its best relation (coarse.go).
//  4. Fine: five terms over the cosines of the query's triples and the run's (fine_score.go).
//  5. Selection of what is not said twice (select.go), the encoding with the fewest tokens (encode.go), and what of it
//     is sent within a budget (policy.go).
//
// Results depend on the input alone: sums are taken in a fixed order, and ties have an order.
package apr
