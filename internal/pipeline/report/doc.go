// Package report writes what a run came to for people: report.md. Names of documents, titles and errors of servers are
// text in it, whatever they hold: nothing of them becomes markup, a link or a script. Equal reports give equal bytes.
package report
