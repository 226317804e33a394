package extract

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kaptinlin/jsonrepair"

	"github.com/unweaver/unweaver/internal/artifact/rows"
)

// Rungs of the parse ladder, in order: what had to be done to an answer before it could be read. A report counts them.
const (
	RungStrict   = "strict"
	RungRepaired = "repaired"
	RungRetry    = "retry" // prefix: the first answer was bad, the re-asked one was read by the rung that follows
)

// What an answer may be. A model writes what a document has it write, so reading takes time in proportion to its length
// whatever stands in it, and no recursion that it steers.
const (
	// MaxAnswer is how long an answer may be, in bytes; a longer one is not read at all.
	MaxAnswer = 1 << 20
	// maxDepth is how deep the objects of an answer may nest that is repaired; exact JSON may be deeper.
	maxDepth = 32
	// maxRepair is how long a text may be that is repaired as a whole, in bytes; the objects of a longer one are
	// repaired one by one. Repairing takes time in proportion to the square of it.
	maxRepair = 32 << 10
	// maxObject is the same for one entity.
	maxObject = 16 << 10
	// maxOpeners is how many brackets may open in a text that is repaired: an upper bound of the recursion of doing so.
	maxOpeners = 8192
)

// Salvaging may cost so much for each byte of an answer, and so much for any: one for each byte looked at, and more for
// what is decoded or repaired, which takes time in proportion to the square of its length.
const (
	salvageEach  = 256
	salvageLeast = 16 << 20
	decodeEach   = 8
	repairEach   = 64
)

type answer struct {
	Name    *string `json:"name"`
	Desc    *string `json:"description"`
	RefName *string `json:"entity_name"`
	RefDesc *string `json:"entity_description"`
	Type    kind    `json:"type"`
}

// kind is the type of an answer. One that is no text is none: it costs the entity nothing else.
type kind string

// UnmarshalJSON implements json.Unmarshaler.
func (k *kind) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = ""
	}
	*k = kind(text)
	return nil
}

var (
	openRE  = regexp.MustCompile("^\\s*(?:```[a-zA-Z]*)?\\s*$")
	fenceRE = regexp.MustCompile("(?s)```[a-zA-Z]*\\s*\n?(.*?)(?:```|$)")
)

// Parse reads a model's answer: {"entities":[{"name","type","description"}]}, a bare list of those or of
// {"entity_name","entity_description"}; inside code fences; with trailing commas, single quotes or a
// truncated tail, of which complete objects are kept. ok is false when nothing of that form is there, and for an answer
// longer than MaxAnswer.
func Parse(text string) (es []rows.Entity, rung string, ok bool) {
	if len(text) > MaxAnswer {
		return nil, "", false
	}
	t := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf && unicode.Is(unicode.Zs, r) { // in ASCII there is the space alone
			return ' '
		}
		return r
	}, text)
	// Exact JSON first: what looks like a fence in it is a description's.
	if l, ok := parseStrict(strings.TrimSpace(t)); ok {
		return l, RungStrict, true
	}
	if l, rung, ok := parseWrapped(t); ok {
		return l, rung, true
	}
	if m := fenceRE.FindStringSubmatch(t); m != nil && strings.ContainsAny(m[1], "{[") {
		t = m[1]
	}
	t = strings.TrimSpace(t)
	if l, ok := parseStrict(t); ok {
		return l, RungStrict, true
	}
	i := strings.IndexAny(t, "{[")
	if i < 0 {
		return nil, "", false
	}
	t = t[i:]
	if end, whole := scanBalanced(t, len(t), len(t)); whole {
		if l, ok := parseStrict(t[:end]); ok {
			return l, RungRepaired, true
		}
		if fixed, ok := repairJSON(t[:end], maxRepair); ok {
			if l, ok := parseStrict(fixed); ok {
				return l, RungRepaired, true
			}
		}
	}
	l := salvageObjects(t)
	return l, RungRepaired, len(l) > 0
}

// parseWrapped reads exact JSON within a fence or among other words, whatever its strings hold: only what stands around
// it is looked at.
func parseWrapped(t string) (l []rows.Entity, rung string, ok bool) {
	begin := strings.IndexAny(t, "{[")
	if begin < 0 {
		return nil, "", false
	}
	end, whole := scanBalanced(t[begin:], len(t), len(t))
	if !whole {
		return nil, "", false
	}
	if l, ok = parseStrict(t[begin : begin+end]); !ok {
		return nil, "", false
	}
	if openRE.MatchString(t[:begin]) && strings.Trim(t[begin+end:], "` \r\n\t") == "" {
		return l, RungStrict, true
	}
	return l, RungRepaired, true
}

// parseStrict reads exact JSON of an accepted form. Entities are read one by one, and what is none is passed over.
func parseStrict(t string) ([]rows.Entity, bool) {
	raw := []byte(t)
	var list []json.RawMessage
	if len(raw) > 0 && raw[0] == '{' {
		var object struct {
			Entities *[]json.RawMessage `json:"entities"`
		}
		if json.Unmarshal(raw, &object) != nil || object.Entities == nil {
			return nil, false
		}
		list = *object.Entities
	} else if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return toEntities(list)
}

// toEntities leaves out what has no name. An empty list is an answer, and a list of nothing usable is none.
func toEntities(list []json.RawMessage) ([]rows.Entity, bool) {
	out := make([]rows.Entity, 0, len(list))
	for _, raw := range list {
		var a answer
		if json.Unmarshal(raw, &a) == nil {
			out = a.appendEntity(out)
		}
	}
	return out, len(out) > 0 || len(list) == 0
}

func (a answer) appendEntity(out []rows.Entity) []rows.Entity {
	n, d := a.Name, a.Desc
	if n == nil {
		n, d = a.RefName, a.RefDesc
	}
	if n == nil || strings.TrimSpace(*n) == "" {
		return out
	}
	e := rows.Entity{Name: strings.Join(strings.Fields(*n), " "), Type: string(a.Type)}
	if d != nil {
		e.Description = strings.TrimSpace(*d)
	}
	return append(out, e)
}

// scanBalanced gives the end of the first JSON value and whether it is closed. Brackets in strings do not count. It
// gives up where it is nested deeper than depth allows, or has more than most bytes; end is how far it looked.
func scanBalanced(t string, most, deepest int) (end int, closed bool) {
	depth, inStr, esc := 0, false, false
	for i := 0; i < min(len(t), most); i++ {
		c := t[i]
		switch {
		case esc:
			esc = false
		case inStr:
			esc = c == '\\'
			inStr = c != '"'
		case c == '"':
			inStr = true
		case c == '{' || c == '[':
			if depth++; depth > deepest {
				return i, false
			}
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return min(len(t), most), false
}

// repairJSON makes JSON of what nearly is. A text that is too long or nests too deep for that is not touched: the
// library recurses for what opens, and copies its output for each repair.
func repairJSON(t string, most int) (string, bool) {
	if len(t) > most {
		return "", false
	}
	openers := strings.Count(t, "{") + strings.Count(t, "[") + strings.Count(t, "(")
	if openers > maxOpeners {
		return "", false
	}
	if _, shallow := scanBalanced(t, len(t), maxDepth); !shallow {
		return "", false
	}
	fixed, err := jsonrepair.Repair(t)
	return fixed, err == nil
}

// salvageObjects keeps the complete innermost objects of a damaged text, until that cost too much.
func salvageObjects(t string) []rows.Entity {
	var out []rows.Entity
	for i, left := 0, salvageEach*len(t)+salvageLeast; i < len(t) && left > 0; i++ {
		if t[i] != '{' {
			continue
		}
		end, ok := scanBalanced(t[i:], len(t), maxDepth)
		if left -= end; !ok {
			continue
		}
		obj := t[i : i+end]
		var a answer
		left -= decodeEach * len(obj)
		if json.Unmarshal([]byte(obj), &a) != nil {
			left -= repairEach*len(obj) + len(obj)*min(len(obj), maxObject)/16
			fixed, ok := repairJSON(obj, maxObject)
			if !ok || json.Unmarshal([]byte(fixed), &a) != nil {
				continue
			}
		}
		if n := len(out); a.Name != nil || a.RefName != nil {
			if out = a.appendEntity(out); len(out) > n {
				i += end - 1
			}
		}
	}
	return out
}
