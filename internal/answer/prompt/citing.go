package prompt

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// citing makes an answer of what a model writes, piece by piece: without the white space around it, cut at mostAnswer,
// with each mark of a citation as [n], and without marks that name nothing which the model was shown. take is given the
// same text as it becomes certain; nil where it is not needed.
type citing struct {
	passages []Passage
	used     []bool
	take     func(text string) error

	out   strings.Builder
	cited []int  // places of passages, from one, in the order of their first marks
	began bool   // something was written
	runes int    // written, behind the leading white space
	held  []rune // what may be a mark, from its bracket
	white string // behind what was given: it counts once something follows
	cut   bool
}

// longestMark that is read as one, in runes.
const longestMark = 80

// oneMarked is the number of a passage in a mark.
const oneMarked = `\d{1,9}(?::\d{1,9})?(?:†[^,;、，]*)?`

// Forms of marks behind their bracket: of one passage, of a list, of a range. Some models write the place of a passage
// within a source, and a name, behind its number: 1:0†source.
var (
	markedRE  = regexp.MustCompile(`^` + oneMarked + `(?:\s*[-–—‑,;、，]\s*` + oneMarked + `)*$`)
	passageRE = regexp.MustCompile(`(?:([-–—‑])\s*)?(\d+)(?::\d+)?(?:†[^,;、，]*)?`)
)

// write takes in a piece.
func (c *citing) write(piece string) error {
	c.began = c.began || piece != ""
	var ready strings.Builder
	for _, r := range piece {
		if c.runes == 0 && unicode.IsSpace(r) {
			continue
		}
		if c.runes == mostAnswer {
			c.cut = true
			break
		}
		c.runes++
		c.takeRune(r, &ready)
	}
	return c.giveText(ready.String())
}

// takeRune moves one on to ready, or holds it while it may be of a mark.
func (c *citing) takeRune(r rune, ready *strings.Builder) {
	switch {
	case len(c.held) == 0:
	case r == closing[c.held[0]] && len(c.held) > 1:
		ready.WriteString(c.citeMark(string(c.held), r))
		c.held = nil
		return
	case closing[r] == 0 && len(c.held) < longestMark && ofMark(c.held, r):
		c.held = append(c.held, r)
		return
	default:
		ready.WriteString(string(c.held))
		c.held = nil
	}
	if closing[r] != 0 {
		c.held = []rune{r}
		return
	}
	ready.WriteRune(r)
}

// closing are the brackets around marks.
var closing = map[rune]rune{'[': ']', '【': '】'}

// ofMark reports whether a mark that is held may go on with a rune.
func ofMark(held []rune, r rune) bool {
	switch {
	case r >= '0' && r <= '9':
		return true
	case len(held) == 1:
		return false
	case strings.ContainsRune(" ,;:-–—‑、，†", r):
		return true
	}
	return slices.Contains(held, '†') && !strings.ContainsRune("\n]】", r)
}

// citeMark gives what stands in the place of a mark: one mark a passage, nothing where it names none. What reads as a
// mark and is none, a range of years or of numbers, stays as it is.
func (c *citing) citeMark(held string, end rune) string {
	bracket := []rune(held)[0]
	inner := strings.TrimSpace(strings.TrimPrefix(held, string(bracket)))
	whole := held + string(end)
	if !markedRE.MatchString(inner) {
		return whole
	}
	var places []int
	ranges, last := false, 0
	for _, found := range passageRE.FindAllStringSubmatch(inner, -1) {
		n, _ := strconv.Atoi(found[2]) // at most nine digits
		first := n
		if found[1] != "" {
			ranges, first = true, last+1
		}
		if n == 0 || first > n {
			return whole
		}
		for place := first; place <= min(n, len(c.passages)); place++ {
			if c.used[place-1] {
				places = append(places, place)
			}
		}
		last = n
	}
	if len(places) == 0 && (ranges || bracket != '[') {
		return whole
	}
	var out strings.Builder
	for _, place := range places {
		out.WriteString("[" + strconv.Itoa(place) + "]")
		if !slices.Contains(c.cited, place) {
			c.cited = append(c.cited, place)
		}
	}
	return out.String()
}

// isEmpty reports whether nothing was said so far.
func (c *citing) isEmpty() bool { return c.out.Len() == 0 && len(c.held) == 0 }

// giveText adds text to the answer, and gives it to who takes it.
func (c *citing) giveText(text string) error {
	text = c.white + text
	if c.out.Len() == 0 {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	solid := strings.TrimRightFunc(text, unicode.IsSpace)
	c.white = text[len(solid):]
	if solid == "" {
		return nil
	}
	c.out.WriteString(solid)
	if c.take == nil {
		return nil
	}
	return c.take(solid)
}

// endAnswer gives what was held, and the whole answer; where there is none it is otherwise.
func (c *citing) endAnswer(otherwise string) (string, error) {
	err := c.giveText(string(c.held))
	c.held = nil
	if err == nil && c.out.Len() == 0 {
		c.white = ""
		err = c.giveText(otherwise)
	}
	return c.out.String(), err
}
