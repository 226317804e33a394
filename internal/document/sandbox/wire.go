package sandbox

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// What is said over the two pipes of a child: frames, each a letter, the length of its content as four bytes, and the
// content. A request is an ask frame, the object's bytes in body frames, and an end, or a drop that takes it back. An
// answer is a head, the text in text frames, and an end; a failed frame ends it instead, at any place.
const (
	frameReady  = 'r' // of a child that has set its limits: it takes requests
	frameAsk    = 'a' // ask
	frameBody   = 'b' // bytes of the object
	frameDrop   = 'd' // the request is taken back: its source broke
	frameHead   = 'h' // a part of head
	frameText   = 't' // text, valid UTF-8 by itself
	frameFailed = 'f' // failed
	frameEnd    = 'e' // of a request: nothing; of an answer: stays or leaves
)

// One byte at the end of an answer says whether its child takes another document.
const (
	stays  = 's'
	leaves = 'l'
)

// maxFrame bounds the content of a frame in bytes, of either side; maxHead all parts of a head.
const (
	maxFrame = 128 << 10
	maxHead  = 16 << 20
)

// ask is a request without its bytes.
type ask struct {
	Kind   document.Kind `json:"kind"`
	Object string        `json:"object"`
	document.Reading
}

// head is an answer without its text.
type head struct {
	Title   string            `json:"title"`
	Meta    map[string]string `json:"meta"`
	Missing string            `json:"missing,omitempty"`
	Blank   []string          `json:"blank,omitempty"`
	Places  []byte            `json:"places,omitempty"`

	Attached []document.Attachment `json:"attached,omitempty"`
	Scans    []int                 `json:"scans,omitempty"`
	Pictures []document.Picture    `json:"pictures,omitempty"`
}

// maxPlaces bounds the places of a document's lines, in bytes: those of a million lines. A document of more has none.
const maxPlaces = 8 << 20

func headOf(doc document.Doc) head {
	places := doc.Places
	if len(places) > maxPlaces {
		places = nil
	}
	return head{
		Title: doc.Title, Meta: doc.Meta, Missing: toBrief(doc.Missing), Blank: doc.Blank, Places: places,
		Attached: doc.Attached, Scans: doc.Scans, Pictures: doc.Pictures,
	}
}

// failed is a fault of the document.
type failed struct {
	Code  string `json:"code"`
	Op    string `json:"op"`
	Cause string `json:"cause"`
	Hint  string `json:"hint"`
}

func writeFrame(out io.Writer, letter byte, content []byte) error {
	var start [5]byte
	start[0] = letter
	binary.BigEndian.PutUint32(start[1:], uint32(len(content)))
	if _, err := out.Write(start[:]); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

// writeJSON writes a value in as many frames as it needs.
func writeJSON(out io.Writer, letter byte, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(raw) > maxHead {
		return fault.TooLarge.At("parse", "").
			Because(fmt.Sprintf("its title and metadata exceed %d MiB", maxHead>>20)).
			Advise("shorten the names and values of its metadata fields")
	}
	for len(raw) > maxFrame {
		if err := writeFrame(out, letter, raw[:maxFrame]); err != nil {
			return err
		}
		raw = raw[maxFrame:]
	}
	return writeFrame(out, letter, raw)
}

// readFrame reads a frame; its content is valid until the next call with the same space.
func readFrame(in *bufio.Reader, space []byte) (letter byte, content []byte, err error) {
	var start [5]byte
	if _, err := io.ReadFull(in, start[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(start[1:])
	if size > maxFrame {
		return 0, nil, garbage(fmt.Sprintf("a frame of %d bytes", size))
	}
	content = space[:size]
	_, err = io.ReadFull(in, content)
	return start[0], content, err
}

// garbage is an answer that no child gives that is well.
type garbage string

func (g garbage) Error() string { return "the process that parses answered with " + string(g) }

// clock counts the time that is spent waiting for a child, and for nothing else.
type clock struct{ left time.Duration }

// waitWithin waits, at most as long as is left.
func (c *clock) waitWithin(deadline func(time.Time) error, wait func() error) error {
	start := time.Now()
	if err := deadline(start.Add(max(c.left, 0))); err != nil {
		return err
	}
	err := wait()
	c.left -= time.Since(start)
	return err
}
