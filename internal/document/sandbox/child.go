package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/pdf"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
)

// A child is known by what it is called with: the name, the mark, and its settings as JSON.
const (
	childName = "unweaver-parse"
	childMark = "--documents-from-standard-input"
)

// settings are what a child is started with.
type settings struct {
	Limits document.Limits `json:"limits"`
	PDF    bool            `json:"pdf"`   // it reads PDFs too
	Cache  string          `json:"cache"` // folder of PDFium's compiled code; empty: there is none
}

// armed is set where this program knows how to be a child: another one would do again what it was started for.
var armed atomic.Bool

// RunChild parses documents where this process was started to parse; elsewhere it returns. A main that may make a Pool
// calls it first. A child parses until its standard input ends, and never returns.
func RunChild() {
	if len(os.Args) == 3 && os.Args[0] == childName && os.Args[1] == childMark {
		if err := serveRequests(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	armed.Store(true)
}

// serveRequests answers requests until there are no more.
func serveRequests(encoded string, stdin io.Reader, stdout io.Writer) error {
	var set settings
	if err := json.Unmarshal([]byte(encoded), &set); err != nil {
		return err
	}
	limits := set.Limits
	debug.SetTraceback("none") // what it was doing is of no use to anybody, that it fell is
	debug.SetMaxStack(int(limits.Memory / 4))
	debug.SetMemoryLimit(limits.Memory / 4 * 3)
	debug.SetGCPercent(childGC)
	prepared := int64(0)
	if set.PDF { // what it reads of files it reads now
		if err := preparePDF(set.Cache, limits); err != nil {
			return err
		}
		prepared = measureMapped()
	}
	if err := confineProcess(limits, prepared); err != nil {
		return err
	}
	c := served{
		limits: limits, in: bufio.NewReaderSize(stdin, maxFrame), out: bufio.NewWriterSize(stdout, maxFrame),
		space: make([]byte, maxFrame),
	}
	if err := c.sendFrame(frameReady, nil); err != nil {
		return err
	}
	for {
		if err := c.answerRequest(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// preparePDF compiles PDFium, one child after the other: those that come later find what the first one kept.
func preparePDF(cache string, limits document.Limits) error {
	if cache != "" {
		if lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			defer func() { _ = lock.Close() }()          // which unlocks it
			_ = unix.Flock(int(lock.Fd()), unix.LOCK_EX) // where there are no locks, some compile at once
		}
	}
	err := pdf.Prepare(cache, limits)
	debug.FreeOSMemory() // compiling takes hundreds of megabytes once
	return err
}

// childGC lets the heap of a child grow fivefold between two collections: it is small as a rule, and its bound is
// SetMemoryLimit, near which more is collected.
const childGC = 400

// served is the child's side of the conversation.
type served struct {
	limits document.Limits
	in     *bufio.Reader
	out    *bufio.Writer
	space  []byte
}

func (c *served) sendFrame(letter byte, content []byte) error {
	if err := writeFrame(c.out, letter, content); err != nil {
		return err
	}
	return c.out.Flush()
}

// answerRequest answers one request; io.EOF says that there are no more.
func (c *served) answerRequest() error {
	letter, content, err := readFrame(c.in, c.space)
	if err != nil {
		return err
	}
	var request ask
	if letter != frameAsk {
		return garbage(fmt.Sprintf("a frame %q where a request begins", letter))
	}
	if err := json.Unmarshal(content, &request); err != nil {
		return err
	}
	if err := allowTime(c.limits.Time); err != nil {
		return err
	}
	body := &received{served: c}
	doc, err := parseDocument(body, request, c.limits)
	if drained := body.drainBody(); drained != nil {
		return drained
	}
	if !body.dropped {
		orphaned := c.watchParent()
		if err == nil {
			err = c.writeAnswer(doc)
		}
		if err := c.endAnswer(err); err != nil {
			return err
		}
		<-orphaned
		return nil
	}
	return c.endAnswer(fault.Unreadable.At("read", request.Object))
}

// watchParent ends this process where its parent is gone, whatever it is doing then: the answer has no reader. It is
// over when the next request comes.
func (c *served) watchParent() (over <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := c.in.Peek(1); err != nil {
			os.Exit(0)
		}
	}()
	return done
}

// parseDocument parses a document as readers.Parse does. A panic is an error of the document; what cannot be recovered
// from ends the process.
func parseDocument(body io.Reader, request ask, limits document.Limits) (doc document.Doc, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fault.ParseCrashed.At("read", request.Object).Because(fmt.Sprint(cause)).Advise(adviseCrashed)
		}
	}()
	limits.Reading = request.Reading
	return readers.Parse(body, request.Kind, request.Object, limits)
}

// writeAnswer writes what a document holds.
func (c *served) writeAnswer(doc document.Doc) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fault.ParseCrashed.At("read", "").Because(fmt.Sprint(cause)).Advise(adviseCrashed)
		}
	}()
	if err := writeJSON(c.out, frameHead, headOf(doc)); err != nil {
		return err
	}
	piece, held := make([]byte, maxFrame), 0
	for {
		n, err := doc.Text.Read(piece[held:])
		held += n
		last := errors.Is(err, io.EOF)
		whole := held
		if !last {
			whole = wholeRunes(piece[:held])
		}
		if held == len(piece) || err != nil {
			if err := c.writeText(piece[:whole]); err != nil {
				return err
			}
			held = copy(piece, piece[whole:held])
		}
		if last {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *served) writeText(piece []byte) error {
	if len(piece) == 0 {
		return nil
	}
	if !utf8.Valid(piece) {
		piece = []byte(strings.ToValidUTF8(string(piece), "\uFFFD"))
		for len(piece) > maxFrame {
			cut := wholeRunes(piece[:maxFrame])
			if err := writeFrame(c.out, frameText, piece[:cut]); err != nil {
				return err
			}
			piece = piece[cut:]
		}
	}
	return writeFrame(c.out, frameText, piece)
}

// wholeRunes returns how much of a text does not end within a rune.
func wholeRunes(piece []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(piece); back++ {
		if at := len(piece) - back; utf8.RuneStart(piece[at]) {
			if !utf8.FullRune(piece[at:]) {
				return at
			}
			break
		}
	}
	return len(piece)
}

// endAnswer ends an answer. One that failed ends with its fault, after which this process goes on all the same.
func (c *served) endAnswer(err error) error {
	if err != nil {
		failure := failed{Code: string(fault.Unreadable), Op: "read", Cause: err.Error()}
		if known := fault.As(err); known != nil {
			failure = failed{Code: string(known.Code), Op: known.Op, Hint: known.Hint}
			if known.Err != nil {
				failure.Cause = known.Err.Error()
			}
		}
		failure.Op, failure.Cause, failure.Hint = toBrief(failure.Op), toBrief(failure.Cause), toBrief(failure.Hint)
		if err := writeJSON(c.out, frameFailed, failure); err != nil {
			return err
		}
	}
	next := byte(stays)
	if measureFootprint() > c.limits.Memory/4 {
		next = leaves
	}
	return c.sendFrame(frameEnd, []byte{next})
}

// measureFootprint returns the memory in bytes that this process has of the system.
func measureFootprint() int64 {
	sample := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64()) - int64(sample[1].Value.Uint64())
}

// received is the bytes of an object as they come.
type received struct {
	*served
	left    []byte // of the frame that came last; it lies in space
	over    bool
	dropped bool
}

var errDropped = errors.New("its source broke off")

// Read implements io.Reader.
func (r *received) Read(out []byte) (int, error) {
	for len(r.left) == 0 {
		if r.dropped {
			return 0, errDropped
		}
		if r.over {
			return 0, io.EOF
		}
		letter, content, err := readFrame(r.in, r.space)
		if err != nil {
			return 0, err
		}
		switch letter {
		case frameBody:
			r.left = content
		case frameEnd:
			r.over = true
		case frameDrop:
			r.over, r.dropped = true, true
		default:
			return 0, garbage(fmt.Sprintf("a frame %q within an object", letter))
		}
	}
	n := copy(out, r.left)
	r.left = r.left[n:]
	return n, nil
}

// drainBody reads what the parser did not.
func (r *received) drainBody() error {
	_, err := io.Copy(io.Discard, r)
	if r.dropped {
		return nil
	}
	return err
}
