package document

import (
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/fault"
)

// Sound is a text that ends with an error where most of it is no text: characters that could not be decoded, controls,
// or such as fonts keep for themselves.
type Sound struct {
	reader         io.Reader
	object         string
	rest           []byte // of a character that a read cut
	all, bad, lost int
}

// NewSound reads a text of an object.
func NewSound(text io.Reader, object string) *Sound { return &Sound{reader: text, object: object} }

// DescribeLoss says how many characters of what was read could not be decoded; empty: none.
func (s *Sound) DescribeLoss() string {
	if s.lost == 0 {
		return ""
	}
	return fmt.Sprintf("undecodable characters, replaced with U+FFFD: %d", s.lost)
}

func (s *Sound) Read(raw []byte) (int, error) {
	n, err := s.reader.Read(raw)
	s.countRunes(append(s.rest, raw[:n]...))
	if errors.Is(err, io.EOF) && s.bad*2 > s.all {
		return n, fault.Unreadable.At("read", s.object).
			Because(fmt.Sprintf("%d of its %d characters are not letters of any script: the encoding is wrong, or fonts "+
				"do not map glyphs to characters", s.bad, s.all)).
			Advise("save text as UTF-8; save other documents so that their text can be copied correctly")
	}
	return n, err
}

func (s *Sound) countRunes(text []byte) {
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if unicode.IsSpace(r) {
			continue
		}
		s.all++
		if r == utf8.RuneError {
			s.lost++
		}
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Co, r) {
			s.bad++
		}
	}
	s.rest = append(s.rest[:0:0], text...)
}
