package triples

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/text/names"
)

// MaxAnswer is how long an answer may be, in bytes; a longer one is not read at all.
const MaxAnswer = 1 << 20

// Said is what was read of an answer.
type Said struct {
	Triples []Triple // in the answer's order, each once; of their sources the sentence is set, counted in the text
	Unfit   int      // entries that are no triple: a part is empty or as long as a passage
	Cut     int      // entries beyond MaxChunkTriples
}

// Read reads the answer to a part's Call: {"triples": [...]} or the list alone, within a fence or other words. An entry
// is {"sentence", "head", "relation", "tail"} or, as recordings have it, [head, relation, tail]. It is read entry by
// entry, so that of an answer that breaks off what is whole stays. ok is false where there is no such list, and where
// it has entries of which none is a triple; an empty list is an answer.
//
// A sentence that an answer names stays where it shares a word with the triple. Else, and where none is named, it is
// the one that shares the most of head, relation and tail; of equal ones the first.
func (p Part) Read(answer string) (said Said, ok bool) {
	if len(answer) > MaxAnswer {
		return Said{}, false
	}
	list, found := listOf(answer)
	if !found {
		return Said{}, false
	}
	places := newPlaces(p)
	seen := map[Triple]bool{}
	for {
		raw, more := list.nextEntry()
		if !more {
			break
		}
		one, fit := entryOf(raw)
		if !fit {
			said.Unfit++
			continue
		}
		if len(said.Triples) >= MaxChunkTriples {
			said.Cut++
			continue
		}
		triple := one.toTriple()
		triple.Source.Sentence = p.From + places.sentenceOf(triple, one.Sentence)
		if !seen[triple] {
			seen[triple] = true
			said.Triples = append(said.Triples, triple)
		}
	}
	return said, len(said.Triples) > 0 || (list.ended && said.Unfit == 0)
}

// entries are those of a list that is read from an answer.
type entries struct {
	decoder *json.Decoder
	ended   bool // the list was closed
}

// listOf finds the list: behind the name "triples", or the first that opens where there is none of that name.
func listOf(answer string) (*entries, bool) {
	at := strings.Index(answer, `"triples"`)
	if at >= 0 {
		rest := strings.TrimLeft(answer[at+len(`"triples"`):], " \t\r\n:")
		if !strings.HasPrefix(rest, "[") {
			return nil, false
		}
		answer = rest
	} else {
		if at = strings.IndexByte(answer, '['); at < 0 {
			return nil, false
		}
		answer = answer[at:]
	}
	list := &entries{decoder: json.NewDecoder(strings.NewReader(answer))}
	_, err := list.decoder.Token() // the bracket
	return list, err == nil
}

// nextEntry returns the next entry as it stands; false when the list is closed or damaged.
func (e *entries) nextEntry() (json.RawMessage, bool) {
	if !e.decoder.More() {
		token, err := e.decoder.Token()
		e.ended = err == nil && token == json.Delim(']')
		return nil, false
	}
	var raw json.RawMessage
	return raw, e.decoder.Decode(&raw) == nil
}

// entry of a list.
type entry struct {
	Sentence *int   `json:"sentence"`
	Head     string `json:"head"`
	Relation string `json:"relation"`
	Tail     string `json:"tail"`
}

func (e entry) toTriple() Triple {
	return Triple{Head: e.Head, Relation: e.Relation, Tail: e.Tail}
}

func entryOf(raw json.RawMessage) (one entry, fit bool) {
	var parts []string
	if json.Unmarshal(raw, &parts) == nil && len(parts) == 3 {
		one = entry{Head: parts[0], Relation: parts[1], Tail: parts[2]}
	} else if json.Unmarshal(raw, &one) != nil {
		return entry{}, false
	}
	for _, part := range []*string{&one.Head, &one.Relation, &one.Tail} {
		*part = strings.Join(strings.Fields(strings.ToValidUTF8(*part, "")), " ")
		if names.Key(*part, false) == "" || len(*part) > MaxPart {
			return entry{}, false
		}
	}
	return one, true
}

// places knows which sentences have which words.
type places struct {
	part Part
	with map[string][]int // of a stem, the sentences that have it, in order
}

func newPlaces(p Part) *places {
	out := &places{part: p, with: map[string][]int{}}
	for i, sentence := range p.Sentences {
		seen := map[string]bool{}
		for _, stem := range p.Language.Terms(sentence) {
			if !seen[stem] {
				seen[stem] = true
				out.with[stem] = append(out.with[stem], i)
			}
		}
	}
	return out
}

// sentenceOf returns the sentence that says a triple: of each of head, relation and tail, the share of its words
// counts.
func (p *places) sentenceOf(triple Triple, named *int) int {
	shared := make(map[int]float64)
	for _, part := range []string{triple.Head, triple.Relation, triple.Tail} {
		stems := slices.Compact(slices.Sorted(slices.Values(p.part.Language.Terms(part))))
		for _, stem := range stems {
			for _, sentence := range p.with[stem] {
				shared[sentence] += 1 / float64(len(stems))
			}
		}
	}
	if named != nil && shared[*named] > 0 {
		return *named
	}
	best := 0
	for sentence := range p.part.Sentences {
		if shared[sentence] > shared[best] {
			best = sentence
		}
	}
	return best
}
