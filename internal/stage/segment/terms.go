package segment

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/text"
)

// languageOf returns the language of the texts of a configuration, by whose rules they are cut into words.
func languageOf(spec core.Spec) *text.Language { return text.LanguageOf(spec.Retrieval.Language) }

// termCounter counts in how many rows each term is. What is held does not grow with the rows.
type termCounter struct {
	sorter extsort.Sorter
	rows   int64
	terms  int64 // of all rows together
	within map[string]bool
}

// addRow counts one row.
func (c *termCounter) addRow(terms []string) {
	if c.within == nil {
		c.within = map[string]bool{}
	}
	clear(c.within)
	c.rows++
	c.terms += int64(len(terms))
	for _, term := range terms {
		if !c.within[term] {
			c.within[term] = true
			c.sorter.Add([]byte(term), nil)
		}
	}
}

// toChange returns what was counted; its entries can be read once.
func (c *termCounter) toChange() deletedstats.Change {
	entries := func(yield func(deletedstats.Entry, error) bool) {
		entry := deletedstats.Entry{}
		for pair, err := range c.sorter.StreamSorted() {
			if err != nil {
				yield(deletedstats.Entry{}, err)
				return
			}
			if term := string(pair[0]); entry.Documents > 0 && entry.Term != term {
				if !yield(entry, nil) {
					return
				}
				entry = deletedstats.Entry{Term: term, Documents: 1}
			} else {
				entry.Term = term
				entry.Documents++
			}
		}
		if entry.Documents > 0 {
			yield(entry, nil)
		}
	}
	return deletedstats.Change{Documents: c.rows, Terms: c.terms, Entries: entries}
}

// Close removes temporary files.
func (c *termCounter) Close() { c.sorter.Close() }
