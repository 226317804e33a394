package apr

import (
	"github.com/unweaver/unweaver/internal/model/triples"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/text/names"
)

// MaxAsked bounds the triples of a question: what asks for more is a document.
const MaxAsked = 6

// Placeholder begins the name of what a question asks for, as in ?x.
const Placeholder = "?"

// Asks is a question as its triples, with the texts of them that are embedded.
type Asks struct {
	Words []Word
	// Entities and Relations of the triples, each once in the order of the triples, and of each triple its line. What is
	// asked for is a name that no corpus has, and stands in none of them.
	Entities, Relations, Lines []string
}

// AsksOf gives what is compared of the triples of a question: the first MaxAsked of those that name anything beside
// what is asked for.
func AsksOf(found []triples.Triple) Asks {
	var out Asks
	add := func(to *[]string, text string) {
		known := func(other string) bool { return names.Key(other, false) == names.Key(text, false) }
		if !slices.ContainsFunc(*to, known) {
			*to = append(*to, text)
		}
	}
	for _, triple := range found {
		if len(out.Words) == MaxAsked {
			break
		}
		var line, entities []string
		for i, part := range []string{triple.Head, triple.Relation, triple.Tail} {
			if strings.HasPrefix(part, Placeholder) {
				continue
			}
			if line = append(line, part); i != 1 {
				entities = append(entities, part)
			}
		}
		if len(entities) == 0 { // any triple of the relation would fit
			continue
		}
		out.Words = append(out.Words, Word{triple.Head, triple.Relation, triple.Tail})
		out.Lines = append(out.Lines, strings.Join(line, " "))
		for _, entity := range entities {
			add(&out.Entities, entity)
		}
		if !strings.HasPrefix(triple.Relation, Placeholder) {
			add(&out.Relations, triple.Relation)
		}
	}
	return out
}
