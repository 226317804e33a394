// Package report writes what a run came to for people: report.md, and report.html, which is one file that needs nothing
// else. Both are made of the same parts (parts.go). Names of documents, titles and errors of servers are text in them,
// whatever they hold: nothing of them becomes markup, a link or a script. Equal reports give equal bytes.
package report
