package triples

import (
	"encoding/json"
	"strings"
)

// Markers of REBEL's output: `<triplet> head <subj> tail <obj> relation`, where further `<subj> tail <obj> relation`
// are of the same head.
const (
	markTriple = "<triplet>"
	markHead   = "<subj>" // what follows is a tail
	markTail   = "<obj>"  // what follows is a relation
)

var padding = strings.NewReplacer("<s>", " ", "</s>", " ", "<pad>", " ",
	markTriple, " "+markTriple+" ", markHead, " "+markHead+" ", markTail, " "+markTail+" ")

// Linearised reads what REBEL writes of one text, in its order, each triple once. What is not whole is left out.
func Linearised(output string) []Triple {
	var out []Triple
	seen := map[Triple]bool{}
	var head, tail, relation []string
	into := &[]string{} // words before the first marker are nobody's
	emit := func() {
		triple := Triple{
			Head: strings.Join(head, " "), Relation: strings.Join(relation, " "), Tail: strings.Join(tail, " "),
		}
		if triple.Head != "" && triple.Relation != "" && triple.Tail != "" && !seen[triple] {
			seen[triple] = true
			out = append(out, triple)
		}
		tail, relation = nil, nil
	}
	for _, word := range strings.Fields(padding.Replace(output)) {
		switch word {
		case markTriple:
			emit()
			head, into = nil, &head
		case markHead:
			emit()
			into = &tail
		case markTail:
			relation, into = nil, &relation
		default:
			*into = append(*into, word)
		}
	}
	emit()
	return out
}

// Answer is what Read reads, made of the outputs of REBEL for the sentences of a part, one for each.
func Answer(outputs []string) (string, error) {
	list := []entry{}
	for i, output := range outputs {
		for _, triple := range Linearised(output) {
			list = append(list, entry{&i, triple.Head, triple.Relation, triple.Tail})
		}
	}
	return answerOf(list)
}

// EncodeFound is what Read reads, made of triples that were found by rule.
func EncodeFound(found []Triple) (string, error) {
	list := []entry{}
	for _, triple := range found {
		list = append(list, entry{&triple.Source.Sentence, triple.Head, triple.Relation, triple.Tail})
	}
	return answerOf(list)
}

func answerOf(list []entry) (string, error) {
	raw, err := json.Marshal(map[string]any{"triples": list})
	return string(raw), err
}
