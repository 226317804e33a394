package document_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string][2]string{
		"plain":               {"a\nb", "a\nb"},
		"UTF-8 with mark":     {"\xef\xbb\xbfé", "é"},
		"line ends":           {"a\r\nb\rc\r\n", "a\nb\nc\n"},
		"Latin-1":             {"Z\xfcrich und M\xfcnchen", "Zürich und München"},
		"UTF-16 little":       {"\xff\xfea\x00\xe9\x00", "aé"},
		"UTF-16 big":          {"\xfe\xff\x00a\x00\xe9", "aé"},
		"UTF-16 without mark": {"a\x00b\x00c\x00d\x00e\x00", "abcde"},
		"one bad byte":        {strings.Repeat("wörter und ", 300) + "\xff", strings.Repeat("wörter und ", 300) + "\uFFFD"},
		"empty":               {"", ""},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			reader, err := document.Decode(strings.NewReader(c[0]), name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			b, err := io.ReadAll(wrap(reader))
			if err != nil || string(b) != c[1] {
				t.Errorf("%s, %s: got %q %v, want %q", name, how, b, err, c[1])
			}
		}
	}
	if _, err := document.Decode(strings.NewReader("\x7fELF\x02\x01\x01\x00\x00"), "x"); !fault.Is(
		err,
		fault.BinaryContent,
	) {
		t.Errorf("binary: %v", err)
	}
}
