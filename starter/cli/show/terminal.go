package show

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cleaned is what is printed for people and programs: control characters of what others wrote (names of files, titles,
// texts, errors of servers) never reach the terminal. They are written as JSON writes them, so that JSON stays JSON.
type cleaned struct {
	to   io.Writer
	rest []byte // the beginning of a character that the next write completes
}

// NewCleaned wraps a writer once.
func NewCleaned(to io.Writer) io.Writer {
	if _, ok := to.(*cleaned); ok || to == nil {
		return to
	}
	return &cleaned{to: to}
}

func (s *cleaned) Write(raw []byte) (int, error) {
	all := append(s.rest, raw...)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if start := len(all) - back; utf8.RuneStart(all[start]) {
			if !utf8.FullRune(all[start:]) {
				whole = start
			}
			break
		}
	}
	_, err := io.WriteString(s.to, escapeControls(string(all[:whole])))
	s.rest = append([]byte(nil), all[whole:]...)
	if err != nil {
		return 0, err
	}
	return len(raw), nil
}

// actsOnTerminal reports whether a terminal might act on char: the control characters but line end and tab, Unicode's
// ends of lines, and those that turn the direction of text, which lets a name look like another.
func actsOnTerminal(char rune) bool {
	switch char {
	case '\n', '\t':
		return false
	case '\u2028', '\u2029':
		return true
	}
	return unicode.In(char, unicode.Cc, unicode.Bidi_Control)
}

// escapeControls writes control characters as \u and four digits, and what is no UTF-8 as the replacement character.
func escapeControls(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, actsOnTerminal) {
		return text
	}
	var out strings.Builder
	for _, char := range text {
		if actsOnTerminal(char) {
			fmt.Fprintf(&out, `\u%04x`, char)
			continue
		}
		out.WriteRune(char)
	}
	return out.String()
}
