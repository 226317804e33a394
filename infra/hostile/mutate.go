package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// zipped are the extensions of documents that are a zip of parts.
var zipped = map[string]bool{".docx": true, ".pptx": true, ".xlsx": true, ".epub": true}

// damage changes a file in one to eight places; other is another file of its kind, pieces of which may come in. Half of
// what is packed is damaged inside, or its checksum would refuse nearly all of it.
func damage(random *rand.Rand, name string, content, other []byte) []byte {
	if random.IntN(2) == 0 {
		switch {
		case zipped[path.Ext(name)]:
			if changed, err := insideZip(random, content, other); err == nil {
				return changed
			}
		case strings.HasSuffix(name, ".gz"):
			if changed, err := insideGzip(random, content, other); err == nil {
				return changed
			}
		}
	}
	if random.IntN(2) == 0 {
		return flipped(random, content)
	}
	return changed(random, content, other)
}

// flipped changes bytes and leaves the length: a PDF says where its objects stand, and one in which they moved is
// mostly refused at once.
func flipped(random *rand.Rand, content []byte) []byte {
	out := bytes.Clone(content)
	for range 1 + random.IntN(16) {
		if len(out) == 0 {
			break
		}
		at := random.IntN(len(out))
		switch c := out[at]; {
		case c >= '0' && c <= '9':
			out[at] = byte('0' + random.IntN(10))
		case random.IntN(2) == 0:
			out[at] ^= 1 << random.IntN(8)
		default:
			out[at] = byte(random.Uint32())
		}
	}
	return out
}

func changed(random *rand.Rand, content, other []byte) []byte {
	out := bytes.Clone(content)
	for range 1 + random.IntN(1+random.IntN(8)) {
		out = changedOnce(random, out, other)
	}
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)

// numbers that programs are known to stumble over.
var numbers = []string{
	"0", "1", "-1", "255", "256", "65535", "65536", "2147483647", "4294967296", "30000000000", "9223372036854775807",
	"1e999", "99999999999999999999",
}

func changedOnce(random *rand.Rand, content, other []byte) []byte {
	if len(content) == 0 {
		return append(content, byte(random.Uint32()))
	}
	at := random.IntN(len(content))
	length := min(1+random.IntN(1+random.IntN(64)), len(content)-at)
	switch random.IntN(7) {
	case 0: // one bit
		content[at] ^= 1 << random.IntN(8)
	case 1: // one byte
		content[at] = byte(random.Uint32())
	case 2: // a piece goes
		return append(content[:at:at], content[at+length:]...)
	case 3: // a piece comes twice, or often
		piece := bytes.Repeat(content[at:at+length], 1+random.IntN(1<<random.IntN(10)))
		return insert(content, at, piece)
	case 4: // rubbish comes in
		piece := make([]byte, length)
		for i := range piece {
			piece[i] = byte(random.Uint32())
		}
		return insert(content, at, piece)
	case 5: // the start of one, the end of another
		if len(other) > 0 && random.IntN(2) == 0 {
			return append(content[:at:at], other[random.IntN(len(other)):]...)
		}
		if len(other) > 0 {
			from := random.IntN(len(other))
			return insert(content, at, other[from:min(len(other), from+1+random.IntN(512))])
		}
	case 6: // another number
		near := content[at:min(len(content), at+4096)]
		if found := digits.FindIndex(near); found != nil {
			number := numbers[random.IntN(len(numbers))]
			if random.IntN(2) == 0 {
				number = strconv.Itoa(random.IntN(1 << random.IntN(24)))
			}
			tail := content[at+found[1]:]
			return append(append(content[:at+found[0]:at+found[0]], number...), tail...)
		}
	}
	return content
}

func insert(content []byte, at int, piece []byte) []byte {
	out := make([]byte, 0, len(content)+len(piece))
	out = append(out, content[:at]...)
	out = append(out, piece...)
	return append(out, content[at:]...)
}

func insideGzip(random *rand.Rand, content, other []byte) ([]byte, error) {
	plain, err := gunzipped(content)
	if err != nil {
		return nil, err
	}
	piece, err := gunzipped(other)
	if err != nil {
		piece = nil
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	if _, err := packed.Write(changed(random, plain, piece)); err != nil {
		return nil, err
	}
	err = packed.Close()
	return out.Bytes(), err
}

func gunzipped(content []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(reader, 64<<20))
}

// insideZip damages one part of an archive and packs all anew.
func insideZip(random *rand.Rand, content, other []byte) ([]byte, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	packed := zip.NewWriter(&out)
	for _, file := range archive.File {
		part, err := file.Open()
		if err != nil {
			return nil, err
		}
		plain, err := io.ReadAll(io.LimitReader(part, 64<<20))
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(file.Name, "document.xml") || random.IntN(4) == 0 {
			plain = changed(random, plain, other)
		}
		to, err := packed.Create(file.Name)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(plain); err != nil {
			return nil, err
		}
	}
	err = packed.Close()
	return out.Bytes(), err
}
