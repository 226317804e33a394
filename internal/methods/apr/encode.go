package apr

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Word is a triple in words, as a prompt has it.
type Word struct{ Head, Relation, Tail string }

// Encoding is a form in which facts are written.
type Encoding int

const (
	// WordTriples writes the words of every triple.
	WordTriples Encoding = iota
	// IDTriples writes words once and triples by their numbers.
	IDTriples
	// EdgeMatrix writes words once and triples once, and lists of triples by their numbers.
	EdgeMatrix
)

// Encodings are those among which the smallest is looked for, in the order in which ties go.
var Encodings = []Encoding{WordTriples, IDTriples, EdgeMatrix}

// String returns the name that explanations and reports have.
func (e Encoding) String() string { return [...]string{"words", "ids", "edges"}[e] }

// keys of the facts, by encoding.
var keys = [...]string{
	WordTriples: "facts(words)",
	IDTriples:   "facts([[e,r,e], ...])",
	EdgeMatrix:  "facts(edges[i])",
}

// rules say to a model how to read the facts.
var rules = [...]string{
	WordTriples: "Knowledge base as JSON. Each triple is [head, relation, tail]. facts: statements of the corpus.",
	IDTriples: "Knowledge base as JSON. e[i] is an entity, r[i] a relation. A triple [i,j,k] says e[i] r[j] e[k]. " +
		"facts: statements of the corpus.",
	EdgeMatrix: "Knowledge base as JSON. e[i] is an entity, r[i] a relation. edges[n] is row [i,j,k] of edge_matrix " +
		"and says e[i] r[j] e[k]. facts: statements of the corpus, each an n.",
}

// Render writes facts without spaces; with rules it adds the text that says how to read them.
func Render(facts []Word, encoding Encoding, withRules bool) string {
	n := renumberFacts(facts)
	var fields []string
	field := func(key string, value string) { fields = append(fields, quoteJSON(key)+":"+value) }
	if encoding != WordTriples && len(n.rows) > 0 {
		field("e", encodeList(n.entities, quoteJSON))
		field("r", encodeList(n.relations, quoteJSON))
	}
	if encoding == EdgeMatrix && len(n.rows) > 0 {
		field("edge_matrix", encodeList(n.rows, encodeRow))
	}
	if len(facts) > 0 {
		field(keys[encoding], encodeList(facts, func(word Word) string {
			switch encoding {
			case EdgeMatrix:
				return strconv.Itoa(n.row[word])
			case IDTriples:
				return encodeRow(n.rows[n.row[word]])
			default:
				return encodeList([]string{word.Head, word.Relation, word.Tail}, quoteJSON)
			}
		}))
	}
	if withRules {
		field("rules", quoteJSON(rules[encoding]))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// ChooseEncoding gives the encoding of the fewest tokens with its rules, of equal ones that of words, then that of ids.
func ChooseEncoding(facts []Word, count func(string) int) (encoding Encoding, text string, tokens int) {
	for i, one := range Encodings {
		rendered := Render(facts, one, true)
		if n := count(rendered); i == 0 || n < tokens {
			encoding, text, tokens = one, rendered, n
		}
	}
	return encoding, text, tokens
}

// renumbered are the symbols of facts, numbered from 0 in the order in which they are used first.
type renumbered struct {
	entities, relations []string
	rows                [][3]int
	row                 map[Word]int
}

func renumberFacts(facts []Word) renumbered {
	n := renumbered{row: map[Word]int{}}
	entity, relation := map[string]int{}, map[string]int{}
	use := func(of map[string]int, shown *[]string, name string) int {
		id, known := of[name]
		if !known {
			id = len(*shown)
			of[name], *shown = id, append(*shown, name)
		}
		return id
	}
	for _, word := range facts {
		if _, known := n.row[word]; known {
			continue
		}
		n.row[word] = len(n.rows)
		head := use(entity, &n.entities, word.Head)
		n.rows = append(n.rows, [3]int{
			head, use(relation, &n.relations, word.Relation), use(entity, &n.entities, word.Tail),
		})
	}
	return n
}

func encodeList[T any](of []T, write func(T) string) string {
	parts := make([]string, len(of))
	for i, one := range of {
		parts[i] = write(one)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func encodeRow(row [3]int) string { return encodeList(row[:], strconv.Itoa) }

// quoteJSON returns a string as JSON, without the escapes that HTML would need.
func quoteJSON(s string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("apr: a string as JSON: " + err.Error()) // strings have no form that JSON lacks
	}
	return strings.TrimSuffix(out.String(), "\n")
}
