package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that parses, from its start until it was waited for.
type child struct {
	cmd     *exec.Cmd
	to      *os.File
	from    *os.File
	out     *bufio.Writer // to
	in      *bufio.Reader // from
	space   []byte
	stderr  tail
	pdf     bool // it reads PDFs too
	answers int  // documents that it answered for

	mu     sync.Mutex
	killed bool // by us
	ended  bool // waited for: its number may be another process's
}

// startChild starts a child. It does not wait until it is ready.
func startChild(args []string, pdf bool) (*child, error) {
	path, err := findProgram()
	if err != nil {
		return nil, err
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), to.Close())
	}
	c := &child{
		to: to, out: bufio.NewWriterSize(to, maxFrame), from: from, in: bufio.NewReaderSize(from, maxFrame),
		space: make([]byte, maxFrame), pdf: pdf,
	}
	c.cmd = &exec.Cmd{
		Path: path, Args: args, Env: []string{}, Dir: "/", Stdin: theirIn, Stdout: theirOut, Stderr: &c.stderr,
		SysProcAttr: newAttributes(), WaitDelay: time.Second,
	}
	err = c.cmd.Start()
	_ = errors.Join(theirIn.Close(), theirOut.Close()) // the child has its own of them
	if err != nil {
		return nil, errors.Join(err, to.Close(), from.Close())
	}
	return c, nil
}

// awaitReady waits until the child has set its limits.
func (c *child) awaitReady() error {
	waiting := clock{left: patience}
	return waiting.waitWithin(c.from.SetReadDeadline, func() error {
		letter, _, err := readFrame(c.in, c.space)
		if err == nil && letter != frameReady {
			return garbage(fmt.Sprintf("a frame %q at its start", letter))
		}
		return err
	})
}

// killGroup ends the child and whatever it may have started. It may be called at any time.
func (c *child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.killed = true
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
}

// wasKilled reports whether the child was killed by kill.
func (c *child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// grace is how long a child that ended its answers may take to end itself, so that it is known how it did.
const grace = 2 * time.Second

// endProcess waits for the child, which is killed unless it ends by itself right now, and closes its pipes. It says how
// it ended; nil: it was ended before.
func (c *child) endProcess(wait bool) *os.ProcessState {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended {
		return nil
	}
	if wait {
		defer time.AfterFunc(grace, c.killGroup).Stop()
	} else {
		c.killGroup()
	}
	awaitExit(c.cmd.Process.Pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	_ = c.cmd.Wait()                              // ProcessState has how it ended
	_ = errors.Join(c.to.Close(), c.from.Close()) // what is left in them is not needed
	return c.cmd.ProcessState
}

// lastLine returns what the child said last on its standard error, in a line.
func (c *child) lastLine() string { return toBrief(c.stderr.String()) }

// tail keeps the beginning of what is written to it, where the runtime says why a program falls.
type tail struct {
	mu   sync.Mutex
	text strings.Builder
}

const maxTail = 4 << 10

// Write implements io.Writer; it never fails.
func (t *tail) Write(raw []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(raw[:min(len(raw), maxTail-t.text.Len())])
	return len(raw), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
