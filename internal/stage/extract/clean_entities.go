package extract

import (
	"cmp"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/text/names"
)

// What models put around a name: emphasis, quotes, code, tags and links, and the signs of a list before it.
var (
	bulletRE = regexp.MustCompile(`^(?:[-*+•·–—>]|#{1,6})\s+`)
	numberRE = regexp.MustCompile(`^\(?(\d{1,4})[.)]\s+`)
	tagRE    = regexp.MustCompile(`(?i)^<(?:b|strong|em|i|u|code|mark)>(.*)</(?:b|strong|em|i|u|code|mark)>$`)
	linkRE   = regexp.MustCompile(`^\[([^\[\]]+)\]\([^()\s]*\)$`)
	escapeRE = regexp.MustCompile("\\\\([_*+#.&`-])")
	around   = [][2]string{
		{"**", "**"}, {"__", "__"}, {"~~", "~~"}, {"*", "*"}, {"_", "_"}, {"`", "`"}, {`"`, `"`}, {"'", "'"},
		{"“", "”"}, {"„", "“"}, {"„", "”"}, {"‘", "’"}, {"«", "»"}, {"»", "«"}, {"「", "」"},
	}
)

// nothings are what models write where they have no name.
var nothings = map[string]bool{
	"n/a": true, "n.a": true, "none": true, "null": true, "nil": true, "unknown": true, "undefined": true,
	"unspecified": true, "not specified": true, "not available": true, "not applicable": true, "not provided": true,
	"not mentioned": true, "no entity": true, "no entities": true, "none found": true, "no name": true,
}

// cleanEntities gives the entities of an answer to a text by their plain names, without those that name nothing; an
// entry that comes again counts once.
func cleanEntities(entities []entity, content string) []entity {
	numbered := isNumbered(entities)
	out := make([]entity, 0, len(entities))
	places := map[string][]int{} // of a name's entries in out
	for i, one := range entities {
		one.Name = plainName(one.Name, content, numbered && numberOf(one.Name) == i+1)
		one.Description = strings.TrimSpace(strings.Map(spaceControl, one.Description))
		if isNothing(one.Name) {
			continue
		}
		key := names.Key(one.Name, false)
		if !isRepeated(out, places[key], one) {
			places[key] = append(places[key], len(out))
			out = append(out, one)
		}
	}
	return out
}

// mostPlaces of a name are looked at for a repetition.
const mostPlaces = 16

// isRepeated reports whether one of the entries at some places says what another one says. The longer description
// stays, and the first type.
func isRepeated(entries []entity, places []int, again entity) bool {
	for _, at := range places[:min(len(places), mostPlaces)] {
		known := &entries[at]
		switch {
		case strings.Contains(known.Description, again.Description):
		case strings.Contains(again.Description, known.Description):
			known.Description = again.Description
		default:
			continue
		}
		known.Type = cmp.Or(known.Type, again.Type)
		return true
	}
	return len(places) > mostPlaces && again.Description == ""
}

// numberOf returns the number that a name begins with as an entry of a list; 0 where it has none.
func numberOf(name string) int {
	found := numberRE.FindStringSubmatch(strings.TrimLeft(name, "*_ "))
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1]) // digits, a few
	return n
}

// isNumbered reports whether the names of a list are numbered: a name alone may begin with a number ("1. FC Köln").
func isNumbered(entities []entity) bool {
	count := 0
	for i, one := range entities {
		if numberOf(one.Name) == i+1 {
			count++
		}
	}
	return count > 1
}

// plainName gives a name without what is around it. A number before it goes where it is one of a list, or the text does
// not have the name with it.
func plainName(name, content string, listed bool) string {
	const layers = 4
	for range layers {
		before := name
		if strings.Contains(name, "&") && strings.Contains(name, ";") {
			name = html.UnescapeString(name)
		}
		name = joinWords(name, content)
		name = bulletRE.ReplaceAllString(name, "")
		if listed || !strings.Contains(content, name) {
			listed = listed && numberOf(name) == 0 // once
			name = numberRE.ReplaceAllString(name, "")
			name = escapeRE.ReplaceAllString(name, "$1")
		}
		name = tagRE.ReplaceAllString(name, "$1")
		name = linkRE.ReplaceAllString(name, "$1")
		name = stripSigns(name)
		if name = strings.TrimSpace(strings.TrimSuffix(name, ":")); name == before {
			break
		}
	}
	return name
}

// stripSigns takes off one pair of signs around a name.
func stripSigns(name string) string {
	for _, pair := range around {
		inner, begins := strings.CutPrefix(name, pair[0])
		inner, ends := strings.CutSuffix(inner, pair[1])
		if begins && ends && strings.TrimSpace(inner) != "" && !strings.Contains(inner, pair[0]) {
			return strings.TrimSpace(inner)
		}
	}
	return name
}

// joinWords separates the words of a name by single spaces. A control character is a space, unless the text has the
// name without.
func joinWords(name, content string) string {
	spaced := strings.Join(strings.Fields(strings.Map(spaceControl, name)), " ")
	joined := strings.Join(strings.Fields(strings.Map(dropControl, name)), " ")
	if spaced != joined && !strings.Contains(content, spaced) && strings.Contains(content, joined) {
		return joined
	}
	return spaced
}

func spaceControl(r rune) rune {
	switch {
	case r == '\u200b' || r == '\ufeff' || r == '\u2060' || r == '\u00ad':
		return -1
	case unicode.IsControl(r) && !unicode.IsSpace(r):
		return ' '
	}
	return r
}

func dropControl(r rune) rune {
	if unicode.IsControl(r) && !unicode.IsSpace(r) {
		return -1
	}
	return spaceControl(r)
}

// isNothing reports whether a name stands for no name.
func isNothing(name string) bool {
	bare := strings.ToLower(strings.Trim(name, " .,;:!()[]{}<>"))
	return nothings[bare] || strings.Trim(name, "-–—_.…?*/|~•,;:()[]{}<>\"'`# ") == ""
}
