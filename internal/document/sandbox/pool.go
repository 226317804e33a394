package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/pdf"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
)

// Pool is a document.Parser in child processes. It is safe for concurrent use. Close it.
type Pool struct {
	limits document.Limits
	places chan struct{}
	starts chan func() // done by the thread that starts children, which they do not outlive
	args   [2][]string // of a child that reads no PDFs, and of one that does

	closing time.Duration // how long Close waits for who is at work

	mu      sync.Mutex
	idle    []*child
	running map[*child]bool
	closed  bool
}

// lifetime is after how many documents a child goes: whatever a parser leaves behind goes with it.
const lifetime = 500

// New makes a pool of so many children at once; none is started before it is needed. What limits leave at zero is that
// of document.DefaultLimits. It fails where main did not call Child.
func New(places int, limits document.Limits) (*Pool, error) {
	if !armed.Load() {
		return nil, fault.Internal.At("parse in child processes of", "this program").
			Because("its main does not call box.Child").
			Advise("this is a bug in the program: report it with this message")
	}
	limits = limits.WithDefaults()
	p := &Pool{
		limits: limits, places: make(chan struct{}, max(places, 1)), starts: make(chan func()),
		running: map[*child]bool{}, closing: closingTime,
	}
	for i, set := range []settings{{Limits: limits}, {Limits: limits, PDF: true, Cache: pdf.CacheFolder()}} {
		encoded, err := json.Marshal(set)
		if err != nil {
			return nil, fault.Internal.At("encode", "limits").Because(err)
		}
		p.args[i] = []string{childName, childMark, string(encoded)}
	}
	go p.runStarts()
	return p, nil
}

// Limits returns the limits of every document, with nothing left at zero.
func (p *Pool) Limits() document.Limits { return p.limits }

// runStarts starts the children. They end with the thread that started them, so it is one that lasts as long as the
// pool.
func (p *Pool) runStarts() {
	runtime.LockOSThread() // and never unlocked: it may not be used for anything else
	hardenThread()
	for start := range p.starts {
		start()
	}
}

// closingTime is how long Close waits for who reads a document from a store that hangs.
const closingTime = 5 * time.Second

// Close ends the children, also those that are at work. It is over in seconds.
func (p *Pool) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	idle := p.idle
	p.idle = nil
	for one := range p.running {
		one.killGroup()
	}
	p.mu.Unlock()
	for _, one := range idle {
		p.discardChild(one)
	}
	late := time.NewTimer(p.closing)
	defer late.Stop()
	for held := range cap(p.places) { // each request at work has given up its child
		select {
		case p.places <- struct{}{}:
		case <-late.C: // its child is gone, and the one that it may ask for is refused
			for range held {
				<-p.places
			}
			return
		}
	}
	close(p.starts)
	for range cap(p.places) { // a late request gets an error
		<-p.places
	}
}

// maxKept bounds the copy of an object, in bytes, from which it can be parsed once more.
const maxKept = 16 << 20

// Parse implements document.Parser. Types that stream are parsed in this process. The text comes from the child as it
// is read; when ctx ends, the child ends too if the text was not read to its end.
//
// A document that breaks its child is fault.ParseCrashed, ParseMemory or ParseTimeout. A child that had other documents
// before, or that somebody else killed, does not count: the document is tried once more, in a new one, within the same
// time. Where that cannot be, or does not help, it is fault.Quarantined, and so is a document that was not given the
// time of the processor that it may take: it is not known yet what it does in a child of its own (document.Again).
func (p *Pool) Parse(
	ctx context.Context, reader io.Reader, kind document.Kind, object string,
) (document.Doc, error) {
	if kind.IsStreamed() {
		return readers.Parse(reader, kind, object, p.limits)
	}
	if ctx.Err() != nil {
		return document.Doc{}, context.Cause(ctx)
	}
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return document.Doc{}, context.Cause(ctx)
	}
	source := &source{reader: io.LimitReader(reader, p.limits.Bytes+1)}
	waiting := clock{left: p.limits.Time}
	pdf := kind == document.PDF || document.ReadingOf(ctx).Part.Kind == document.PDF
	for again := false; ; again = true {
		one, err := p.takeChild(ctx, pdf, again || document.IsRetry(ctx))
		if err != nil {
			<-p.places
			return document.Doc{}, err
		}
		talk := newSession(ctx, p, one, object, waiting)
		doc, err := talk.parseObject(source, kind)
		if err == nil {
			return doc, nil // reading the text gives the place back
		}
		if !again && talk.doubtful && ctx.Err() == nil && source.rewindSource() {
			waiting = talk.clock
			continue
		}
		<-p.places
		return document.Doc{}, err
	}
}

// PIDs returns the process ids of the children that are kept or at work.
func (p *Pool) PIDs() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int
	for _, one := range p.idle {
		out = append(out, one.cmd.Process.Pid)
	}
	for one := range p.running {
		out = append(out, one.cmd.Process.Pid)
	}
	return out
}

// takeChild gives an idle child that reads PDFs where it is to, or a new one.
func (p *Pool) takeChild(ctx context.Context, pdf, fresh bool) (*child, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, newStopError("documents")
	}
	if ctx.Err() != nil {
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	var inTheWay []*child
	if !fresh {
		if one := p.fromIdle(pdf); one != nil {
			p.running[one] = true
			p.mu.Unlock()
			return one, nil
		}
		if len(p.idle) > 0 && len(p.idle)+len(p.running) >= cap(p.places) { // these read no PDFs
			inTheWay, p.idle = p.idle[:1:1], p.idle[1:]
		}
	}
	p.mu.Unlock()
	for _, one := range inTheWay {
		p.discardChild(one)
	}
	type started struct {
		child *child
		err   error
	}
	answer := make(chan started, 1)
	p.starts <- func() {
		args := p.args[0]
		if pdf {
			args = p.args[1]
		}
		one, err := startChild(args, pdf)
		answer <- started{one, err}
	}
	got := <-answer
	if got.err != nil {
		return nil, newDownError(got.err)
	}
	p.mu.Lock()
	p.running[got.child] = true
	closed := p.closed
	p.mu.Unlock()
	if closed {
		got.child.killGroup()
	}
	stop := context.AfterFunc(ctx, got.child.killGroup)
	defer stop()
	if err := got.child.awaitReady(); err != nil {
		p.discardChild(got.child)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case p.isClosed():
			return nil, newStopError("documents")
		}
		return nil, newDownError(fmt.Errorf("%w: %s", err, got.child.lastLine()))
	}
	return got.child, nil
}

// fromIdle takes out the idle child that was used last of those that can be used: one that reads PDFs can be for
// everything. The caller holds the lock.
func (p *Pool) fromIdle(pdf bool) *child {
	for i, one := range slices.Backward(p.idle) {
		if one.pdf || !pdf {
			p.idle = slices.Delete(p.idle, i, i+1)
			return one
		}
	}
	return nil
}

// newStopError returns the error of a pool that is closed.
func newStopError(object string) error {
	return fault.ParserDown.At("parse", object).Because("the worker is shutting down")
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// newDownError returns the error of what keeps this machine from parsing anything.
func newDownError(err error) error {
	return fault.ParserDown.At("start a process that parses", "documents").
		Because(err).
		Advise("the document is retried; check the process and memory limits of the worker")
}

// returnChild keeps a child for the next document.
func (p *Pool) returnChild(one *child) {
	p.mu.Lock()
	delete(p.running, one)
	if !p.closed {
		p.idle = append(p.idle, one)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	one.endProcess(false)
}

func (p *Pool) discardChild(one *child) {
	one.endProcess(false)
	p.mu.Lock()
	delete(p.running, one)
	p.mu.Unlock()
}

// source is an object as it is read, with a copy of what was read as long as that is small.
type source struct {
	reader io.Reader
	kept   bytes.Buffer
	lost   bool  // too much was read
	err    error // of the reader, not io.EOF
}

// Read implements io.Reader.
func (s *source) Read(out []byte) (int, error) {
	n, err := s.reader.Read(out)
	if err != nil && err != io.EOF {
		s.err = err
	}
	if !s.lost && s.kept.Len()+n > maxKept {
		s.lost, s.kept = true, bytes.Buffer{}
	}
	if !s.lost {
		s.kept.Write(out[:n])
	}
	return n, err
}

// rewindSource begins again, once, where nothing is lost.
func (s *source) rewindSource() bool {
	if s.lost || s.err != nil {
		return false
	}
	s.reader = io.MultiReader(bytes.NewReader(bytes.Clone(s.kept.Bytes())), s.reader)
	s.lost, s.kept = true, bytes.Buffer{}
	return true
}

// patience is how long a child may take to start on a machine that is busy, and so many of them to compile PDFium one
// after the other.
const patience = 5 * time.Minute

var _ document.Parser = (*Pool)(nil)
