// Package sandbox parses documents that must be read whole in child processes, so that a document which breaks its
// parser, takes all memory or never ends costs one child and is named, and nothing else is touched.
//
// A child is this program itself, started again: every main calls Child first. It gets no environment, no files but two
// pipes and its standard error, the limits of document.Limits on memory and time, and no way to make files, to reach
// the network or to start a program. Its answers are believed no more than the document: they are bounded, checked, and
// those that make no sense are an error of the document.
//
// Children are kept for the next document. One that was given up in the middle of a document is killed, with its group.
package sandbox
