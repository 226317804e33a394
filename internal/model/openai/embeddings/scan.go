package embeddings

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// deepest nesting of brackets, as of encoding/json.
const deepest = 10_000

// scanner goes over one JSON text, byte by byte, and allocates nothing but its errors.
type scanner struct {
	text []byte
	at   int // of the next byte
}

func (s *scanner) wrong(want string) error {
	if s.at >= len(s.text) {
		return fmt.Errorf("it ends at byte %d, where %s is due", s.at, want)
	}
	return fmt.Errorf("%q at byte %d, where %s is due", s.text[s.at], s.at, want)
}

// next passes space by and gives the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take passes one byte by, if it comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.at >= len(s.text) {
		return false
	}
	s.at++
	return true
}

// list goes over what lies between two brackets, apart by commas; each is called at the start of every part.
func (s *scanner) list(end byte, each func() error) error {
	s.at++ // the bracket
	if s.take(end) {
		return nil
	}
	for {
		s.next()
		if err := each(); err != nil {
			return err
		}
		if s.take(end) {
			return nil
		}
		if !s.take(',') {
			return s.wrong("a comma or " + string(end))
		}
	}
}

// object goes over an object; member is called at the value of each name.
func (s *scanner) object(member func(name string) error) error {
	return s.list('}', func() error {
		name, err := s.name()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.wrong("a colon")
		}
		s.next()
		return member(name)
	})
}

// names that count.
const (
	nameData      = "data"
	nameIndex     = "index"
	nameEmbedding = "embedding"
	nameUsage     = "usage"
)

// name passes a name by and gives the one that counts, in whatever case it is written, as to encoding/json; else none.
func (s *scanner) name() (string, error) {
	if s.next() != '"' {
		return "", s.wrong("a name")
	}
	from := s.at
	escaped, err := s.string()
	if err != nil {
		return "", err
	}
	written := s.text[from+1 : s.at-1]
	if escaped {
		var plain string
		if err := json.Unmarshal(s.text[from:s.at], &plain); err != nil {
			return "", err
		}
		written = []byte(plain)
	}
	for _, name := range []string{nameData, nameIndex, nameEmbedding, nameUsage} {
		if bytes.EqualFold(written, []byte(name)) {
			return name, nil
		}
	}
	return "", nil
}

// string passes a string by, checked.
func (s *scanner) string() (escaped bool, err error) {
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return escaped, err
			}
		case c < ' ':
			return escaped, s.wrong("no control character")
		}
	}
	return escaped, s.wrong("the end of a string")
}

// escape goes to the last byte of an escape.
func (s *scanner) escape() error {
	if s.at++; s.at >= len(s.text) {
		return s.wrong("an escape")
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		for range 4 {
			if s.at++; s.at >= len(s.text) || !isHex(s.text[s.at]) {
				return s.wrong("a hexadecimal digit")
			}
		}
		return nil
	}
	return s.wrong("an escape")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// number passes a number by and gives it.
func (s *scanner) number() ([]byte, error) {
	from := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		s.at++
	}
	switch {
	case s.at < len(s.text) && s.text[s.at] == '0':
		s.at++
	case !s.digits():
		return nil, s.wrong("a digit")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if !s.digits() {
			return nil, s.wrong("a digit")
		}
	}
	if s.at < len(s.text) && s.text[s.at]|' ' == 'e' {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if !s.digits() {
			return nil, s.wrong("a digit")
		}
	}
	return s.text[from:s.at], nil
}

// digits passes digits by and tells whether there were any.
func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > from
}

// word passes true, false or null by.
func (s *scanner) word(word string) error {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return s.wrong("a value")
	}
	s.at += len(word)
	return nil
}

// value passes any value by, checked, that lies within so many brackets.
func (s *scanner) value(within int) error {
	switch c := s.next(); c {
	case '{', '[':
		if within >= deepest {
			return fmt.Errorf("it is nested deeper than %d", deepest)
		}
		if c == '{' {
			return s.object(func(string) error { return s.value(within + 1) })
		}
		return s.list(']', func() error { return s.value(within + 1) })
	case '"':
		_, err := s.string()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	_, err := s.number()
	return err
}
