package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// Advice for documents that break what parses them.
const (
	adviseCrashed = "save the file again, convert it to text, or remove it: it is damaged or malicious; " +
		"the run continues without it"
	adviseMemory = "save it again or split it; limits.document.memory of the worker bounds what parsing one may take; " +
		"run index with --rebuild once that is raised"
	adviseTime = "save it again or split it; limits.document.seconds of the worker bounds what parsing one may take; " +
		"run index with --rebuild once that is raised"
	adviseOutside = "the next run tries again; check the memory and processors of the worker"
)

// session is one document in one child.
type session struct {
	pool   *Pool
	child  *child
	ctx    context.Context
	stop   func() bool // the watch over ctx
	object string
	clock  clock
	before time.Duration // of the processors, that the child had taken by then

	doubtful bool // it broke a child that may have been broken before, or that somebody else killed

	mu    sync.Mutex // held while something waits for the child
	over  bool       // the child is given back or gone
	frees bool       // its end frees the place
}

// newSession watches over ctx from its beginning on, also where that is over already.
func newSession(ctx context.Context, pool *Pool, one *child, object string, waiting clock) *session {
	s := &session{pool: pool, child: one, ctx: ctx, object: object, clock: waiting, before: one.processorTime()}
	s.mu.Lock()
	defer s.mu.Unlock() // abandon waits until stop is there
	s.stop = context.AfterFunc(ctx, s.abandonDocument)
	return s
}

// abandonDocument gives the document up: its context ended.
func (s *session) abandonDocument() {
	s.child.killGroup() // a caller that waits for it wakes up
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseChild(false)
}

// releaseChild gives the child back or ends it. The caller holds the lock.
func (s *session) releaseChild(keep bool) {
	if s.over {
		return
	}
	s.over = true
	if !s.stop() { // it is being killed
		keep = false
	}
	if keep && s.child.answers < lifetime {
		s.pool.returnChild(s.child)
	} else {
		s.pool.discardChild(s.child)
	}
	if s.frees {
		<-s.pool.places
	}
}

// parseObject sends an object and reads the beginning of its answer. After an error the child is gone or given back.
func (s *session) parseObject(source *source, kind document.Kind) (document.Doc, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return document.Doc{}, context.Cause(s.ctx)
	}
	if err := s.sendRequest(source, kind); err != nil {
		return document.Doc{}, s.endBroken(err)
	}
	var raw []byte
	for {
		letter, content, err := s.receiveFrame()
		if err != nil {
			return document.Doc{}, s.endBroken(err)
		}
		if letter == frameHead {
			if raw = append(raw, content...); len(raw) > maxHead {
				return document.Doc{}, s.endBroken(garbage("too long a head"))
			}
			continue
		}
		if letter == frameFailed {
			return document.Doc{}, s.readRefusal(content, source.err)
		}
		var start head
		if err := json.Unmarshal(raw, &start); err != nil {
			return document.Doc{}, s.endBroken(garbage("a head that is none"))
		}
		text := &text{session: s}
		switch err := text.takeFrame(letter, content); {
		case errors.Is(err, io.EOF): // there is none, and the child is given back
			text.err = err
			<-s.pool.places
		case err != nil:
			return document.Doc{}, err
		default:
			s.frees = true
		}
		return document.Doc{
			Title: s.cutTitle(start.Title), Meta: start.Meta, Text: text, Missing: toBrief(start.Missing), Places: start.Places,
			Blank:    start.Blank,
			Attached: start.Attached, Scans: start.Scans, Pictures: start.Pictures,
		}, nil
	}
}

// cutTitle believes no child that cut it.
func (s *session) cutTitle(title string) string {
	most := s.pool.limits.Title
	if most <= 0 || utf8.RuneCountInString(title) <= most {
		return title
	}
	return string([]rune(title)[:most])
}

// sendRequest writes the request.
func (s *session) sendRequest(source *source, kind document.Kind) error {
	write := func(letter byte, content []byte) error {
		return s.clock.waitWithin(s.child.to.SetWriteDeadline, func() error {
			err := writeFrame(s.child.out, letter, content)
			if err == nil && letter != frameAsk && letter != frameBody {
				err = s.child.out.Flush()
			}
			return err
		})
	}
	raw, err := json.Marshal(ask{Kind: kind, Object: toBrief(s.object), Reading: document.ReadingOf(s.ctx)})
	if err != nil {
		return err
	}
	if err := write(frameAsk, raw); err != nil {
		return err
	}
	piece := make([]byte, maxFrame)
	for {
		n, err := io.ReadFull(source, piece)
		if n > 0 {
			if err := write(frameBody, piece[:n]); err != nil {
				return err
			}
		}
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && source.err == nil:
			return write(frameEnd, nil)
		case err != nil:
			return write(frameDrop, nil)
		}
	}
}

// receiveFrame reads a frame of the answer.
func (s *session) receiveFrame() (letter byte, content []byte, err error) {
	err = s.clock.waitWithin(s.child.from.SetReadDeadline, func() error {
		letter, content, err = readFrame(s.child.in, s.child.space)
		return err
	})
	return letter, content, err
}

// readEnd reads the end of an answer and gives the child back.
func (s *session) readEnd(content []byte) error {
	if len(content) != 1 || (content[0] != stays && content[0] != leaves) {
		return s.endBroken(garbage("an end that is none"))
	}
	if s.child.in.Buffered() > 0 {
		return s.endBroken(garbage("more than one answer"))
	}
	s.child.answers++
	s.releaseChild(content[0] == stays)
	return nil
}

// readRefusal reads the fault of a document that the child could not parse. What broke its source was no fault of it.
func (s *session) readRefusal(content []byte, ofSource error) error {
	var failure failed
	if err := json.Unmarshal(content, &failure); err != nil {
		return s.endBroken(garbage("a fault that is none"))
	}
	letter, content, err := s.receiveFrame()
	if err == nil && letter != frameEnd {
		err = garbage("something after a fault")
	}
	if err != nil {
		return s.endBroken(err)
	}
	if err := s.readEnd(content); err != nil {
		return err
	}
	if ofSource != nil {
		if fault.As(ofSource) != nil || errors.Is(ofSource, context.Canceled) {
			return ofSource
		}
		return fault.Unreadable.At("read", s.object).Because(ofSource)
	}
	code := fault.Code(failure.Code)
	if !fault.IsKnown(code) || code.Kind() != fault.Content {
		return fault.ParseCrashed.At("parse", s.object).Because(garbage("an unknown fault")).Advise(adviseCrashed)
	}
	out := code.At(toBrief(failure.Op), s.object).Advise(toBrief(failure.Hint))
	if cause := toBrief(failure.Cause); cause != "" {
		out = out.Because(cause)
	}
	return out
}

// endBroken ends a child that did not answer as it should, and says whose fault that is.
func (s *session) endBroken(cause error) error {
	if s.over {
		return context.Cause(s.ctx)
	}
	late := errors.Is(cause, os.ErrDeadlineExceeded)
	var nonsense garbage
	outside := !late && !errors.As(cause, &nonsense) // it is ending by itself, or its pipes are closed
	used := s.child.answers > 0
	state := s.child.endProcess(outside && s.ctx.Err() == nil)
	s.releaseChild(false)
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	last := s.child.lastLine()
	var status syscall.WaitStatus
	if state != nil {
		status, _ = state.Sys().(syscall.WaitStatus)
	}
	if s.pool.isClosed() {
		return newStopError(s.object)
	}
	fails := func(code fault.Code, why, hint string) error {
		return code.At("parse", s.object).Because(why).Advise(hint)
	}
	exhausted := strings.Contains(last, "SIGXCPU") || status.Signaled() && status.Signal() == syscall.SIGXCPU
	short := strings.Contains(last, "out of memory") || strings.Contains(last, "cannot allocate memory")
	signalled := !s.child.wasKilled() && !short && ofOthers(status)
	s.doubtful = outside && !exhausted && (used || signalled)
	switch {
	case late && state != nil && state.UserTime()+state.SystemTime()-s.before < s.pool.limits.Time/4*3:
		return fails(fault.Quarantined,
			fmt.Sprintf("parsing did not finish in %v, because other programs kept the processors busy", s.pool.limits.Time),
			adviseOutside)
	case late, exhausted:
		return fails(fault.ParseTimeout, fmt.Sprintf("parsing did not finish in %v", s.pool.limits.Time), adviseTime)
	case signalled:
		return fails(fault.Quarantined,
			"the parser process was killed, probably because memory was short", adviseOutside)
	case s.doubtful:
		return fails(fault.Quarantined, "it crashed a parser process that had parsed other documents: "+last, adviseOutside)
	case short:
		return fails(fault.ParseMemory,
			fmt.Sprintf("parsing it needs more than %d MiB of memory", s.pool.limits.Memory>>20), adviseMemory)
	case !outside:
		return fails(fault.ParseCrashed, cause.Error(), adviseCrashed)
	case last != "":
		return fails(fault.ParseCrashed, "it crashed the parser process: "+last, adviseCrashed)
	}
	return fails(fault.ParseCrashed,
		fmt.Sprintf("the parser process ended without an answer (%v)", state), adviseCrashed)
}

// ofOthers reports whether a child ended by a signal that no program gives itself: the system where memory is short, or
// what ends the group of the worker.
func ofOthers(status syscall.WaitStatus) bool {
	if !status.Signaled() {
		return false
	}
	switch status.Signal() {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		return true
	}
	return false
}

// text is the text of an answer.
type text struct {
	*session
	left  []byte
	total int64
	err   error
}

// Read implements io.Reader.
func (t *text) Read(out []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.left) == 0 && t.err == nil {
		if t.over {
			t.err = context.Cause(t.ctx)
			break
		}
		letter, content, err := t.receiveFrame()
		if err != nil {
			t.err = t.endBroken(err)
			break
		}
		t.err = t.takeFrame(letter, content)
	}
	if len(t.left) == 0 {
		return 0, t.err
	}
	n := copy(out, t.left)
	t.left = t.left[n:]
	return n, nil
}

// takeFrame takes a frame of the text, or what ends it: io.EOF where all is well.
func (t *text) takeFrame(letter byte, content []byte) error {
	switch letter {
	case frameText:
		if t.total += int64(len(content)); t.total > t.pool.limits.Text {
			return t.endBroken(garbage(fmt.Sprintf("more than %d MiB of text", t.pool.limits.Text>>20)))
		}
		if !utf8.Valid(content) {
			return t.endBroken(garbage("text that is not UTF-8"))
		}
		t.left = content
		return nil
	case frameFailed:
		return t.readRefusal(content, nil)
	case frameEnd:
		if err := t.readEnd(content); err != nil {
			return err
		}
		return io.EOF
	}
	return t.endBroken(garbage(fmt.Sprintf("a frame %q", letter)))
}

// maxBrief bounds a sentence of a child, in bytes.
const maxBrief = 1000

// toBrief makes one line of what a child says, of bounded length and without control characters.
func toBrief(text string) string {
	if len(text) > maxBrief {
		text = text[:maxBrief]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.TrimSpace(text)
}
