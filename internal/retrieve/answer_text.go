package retrieve

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// citing makes an answer of what a model writes, piece by piece: without the white space around it, cut at mostAnswer,
// and without marks that name nothing which the model was shown. take is given the same text as it becomes certain; nil
// where nobody wants it.
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

// longestMark that is read as one: a bracket and digits.
const longestMark = 20

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
		c.rune(r, &ready)
	}
	return c.give(ready.String())
}

// rune moves one on to ready, or holds it while it may be of a mark.
func (c *citing) rune(r rune, ready *strings.Builder) {
	switch {
	case len(c.held) == 0:
	case r >= '0' && r <= '9' && len(c.held) < longestMark:
		c.held = append(c.held, r)
		return
	case r == ']' && len(c.held) > 1:
		n, err := strconv.Atoi(string(c.held[1:]))
		if err == nil && n >= 1 && n <= len(c.passages) && c.used[n-1] {
			ready.WriteString(string(c.held) + "]")
			if !slices.Contains(c.cited, n) {
				c.cited = append(c.cited, n)
			}
		} // else it names nothing that the model was shown
		c.held = nil
		return
	default:
		ready.WriteString(string(c.held))
		c.held = nil
	}
	if r == '[' {
		c.held = []rune{r}
		return
	}
	ready.WriteRune(r)
}

// give adds text to the answer, and gives it to who takes it.
func (c *citing) give(text string) error {
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

// end gives what was held, and the whole answer; where there is none it is otherwise.
func (c *citing) end(otherwise string) (string, error) {
	err := c.give(string(c.held))
	c.held = nil
	if err == nil && c.out.Len() == 0 {
		c.white = ""
		err = c.give(otherwise)
	}
	return c.out.String(), err
}
