// Package report writes the report of a run for people: report.md. Names of documents, titles and error texts of
// servers are shown as plain text, so that nothing in them becomes markup, a link or a script. Equal reports give equal
// bytes.
package report
