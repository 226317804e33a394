package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
)

// verdict is what became of one input.
type verdict struct {
	Code    fault.Code `json:"code"`    // empty: it was read
	Error   string     `json:"error"`   // what a person would be told
	Crashed bool       `json:"crashed"` // the process that read it ended
	Hung    bool       `json:"hung"`    // it took longer than it may
	Text    int64      `json:"text"`    // bytes of text that came out
	Seconds float64    `json:"seconds"` // that it took
	Boxed   int64      `json:"boxed"`   // bytes of the largest process that parsed, so far
}

// parser has one input after another read by a process that reads as a worker does: types that stream in itself, others
// in a box below it. Where an input ends that process it is started anew.
type parser struct {
	limit time.Duration
	proc  *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	peak  int64 // of the largest process so far, in bytes
	boxed int64 // of the largest process below it, in bytes
}

const childName = "child"

// addressSpace bounds what a child may reserve, as a crash of its own and not of the machine: the runtime reserves more
// than it uses.
const addressSpace = 6 << 30

// parse reads one input to the end of its text.
func (p *parser) parse(ctx context.Context, name string, content []byte) (verdict, error) {
	if p.proc == nil {
		if err := p.start(); err != nil {
			return verdict{}, err
		}
	}
	began := time.Now()
	answered := make(chan answer, 1)
	go func(in io.Writer, out *bufio.Reader) {
		err := errors.Join(send(in, []byte(name)), send(in, content))
		line, readErr := out.ReadBytes('\n')
		answered <- answer{line, errors.Join(err, readErr)}
	}(p.in, p.out)
	timer := time.NewTimer(p.limit + 2*time.Second) // the parser has a clock of its own
	defer timer.Stop()
	var got answer
	hung := false
	select {
	case got = <-answered:
	case <-timer.C:
		hung = true
	case <-ctx.Done():
		p.stop()
		return verdict{}, ctx.Err()
	}
	var v verdict
	if hung || got.err != nil || json.Unmarshal(got.line, &v) != nil {
		p.stop()
		v = verdict{Hung: hung, Crashed: !hung}
	}
	p.boxed = max(p.boxed, v.Boxed)
	v.Seconds = time.Since(began).Seconds()
	return v, nil
}

type answer struct {
	line []byte
	err  error
}

func (p *parser) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	proc := exec.Command(self, childName)
	proc.SysProcAttr = endsWithParent()
	if p.in, err = proc.StdinPipe(); err != nil {
		return err
	}
	out, err := proc.StdoutPipe()
	if err != nil {
		return err
	}
	p.out, p.proc = bufio.NewReader(out), proc
	return proc.Start()
}

// stop ends the process, with what is below it.
func (p *parser) stop() {
	if p.proc == nil {
		return
	}
	_ = p.proc.Process.Kill() // it may have ended; what it started ends with it
	_ = p.proc.Wait()         // how is told by what it answered
	if usage, ok := p.proc.ProcessState.SysUsage().(*syscall.Rusage); ok {
		p.peak = max(p.peak, usage.Maxrss<<10)
	}
	p.proc = nil
}

func send(out io.Writer, content []byte) error {
	_, err := out.Write(append(binary.BigEndian.AppendUint64(nil, uint64(len(content))), content...))
	return err
}

func receive(in io.Reader) ([]byte, error) {
	var size [8]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	content := make([]byte, binary.BigEndian.Uint64(size[:]))
	_, err := io.ReadFull(in, content)
	return content, err
}

// child reads inputs from in and writes a verdict on each, a line of JSON, until in ends.
func child(in io.Reader, out io.Writer) error {
	bound := syscall.Rlimit{Cur: addressSpace, Max: addressSpace}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &bound); err != nil {
		return err
	}
	pool, err := sandbox.New(1, document.DefaultLimits())
	if err != nil {
		return err
	}
	defer pool.Close()
	encoder := json.NewEncoder(out)
	for {
		name, err := receive(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := receive(in)
		if err != nil {
			return err
		}
		text, err := read(string(name), content, pool)
		v := verdict{Code: fault.CodeOf(err), Text: text, Boxed: boxed(pool.PIDs())}
		if err != nil {
			v.Error = strings.ToValidUTF8(err.Error(), "?")
		}
		if err := encoder.Encode(v); err != nil {
			return err
		}
	}
}

// boxed is the most memory that any of the processes below this one had, in bytes.
func boxed(living []int) (peak int64) {
	var ended syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended) == nil {
		peak = ended.Maxrss << 10
	}
	for _, pid := range living {
		peak = max(peak, peakOf(strconv.Itoa(pid)))
	}
	return peak
}

// read reads an object as a build does, and tells how much text it has. Where only rows cannot be used, the error is
// that of the first.
func read(name string, content []byte, pool *sandbox.Pool) (text int64, err error) {
	limits := pool.Limits()
	kind, gz, _, ok := document.KindOf(name)
	if !ok {
		return 0, fault.UnknownType.At("read", name)
	}
	plain, err := document.Gunzip(bytes.NewReader(content), gz, name, limits)
	if err != nil {
		return 0, err
	}
	if !kind.HasRows() {
		doc, err := pool.Parse(context.Background(), plain, kind, name)
		if err != nil {
			return 0, err
		}
		text, err = io.Copy(io.Discard, doc.Text)
		if err != nil && fault.As(err) == nil {
			err = fault.Unreadable.At("read", name).Because(err)
		}
		return text, err
	}
	decoded, err := document.Decode(plain, name)
	if err != nil {
		return 0, err
	}
	var bad error
	err = document.Rows(decoded, kind, name, limits, func(row document.Row) error {
		if row.Err != nil {
			if bad == nil {
				bad = row.Err
			}
			return nil
		}
		_, body, _, err := document.Record(row.Canonical)
		text += int64(len(body))
		return err
	})
	if err == nil {
		err = bad
	}
	return text, err
}
