package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// behaviour is the argument that makes this test binary a child that does not do what it should.
const behaviour = "--behave-like="

// misbehave runs such a child.
func misbehave() {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], behaviour) {
		return
	}
	if os.Args[1] == behaviour+"a parent" {
		parent()
	}
	if os.Args[1] == behaviour+"an intruder" {
		intrude()
	}
	say := func(letter byte, content string) { _ = sandbox.WriteFrame(os.Stdout, letter, []byte(content)) }
	in := bufio.NewReader(os.Stdin)
	say(sandbox.FrameReady, "")
	if how := strings.TrimPrefix(os.Args[1], behaviour); how != "one that closes its input" {
		for space := make([]byte, 1<<20); ; {
			if letter, _, err := sandbox.ReadFrame(in, space); err != nil || letter == sandbox.FrameEnd {
				break
			}
		}
	}
	switch strings.TrimPrefix(os.Args[1], behaviour) {
	case "one that writes garbage":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte{0xff}, 1<<20))
	case "one that sends other bytes than text":
		say(sandbox.FrameHead, "{}")
		say(sandbox.FrameText, "\xff\xfe")
	case "one that never ends":
		say(sandbox.FrameHead, "{}")
		for text := strings.Repeat("x", 64<<10); ; {
			say(sandbox.FrameText, text)
		}
	case "one that never ends its head":
		for {
			say(sandbox.FrameHead, strings.Repeat(" ", 64<<10))
		}
	case "one that invents faults":
		say(sandbox.FrameFailed, `{"code":"store_full"}`)
		say(sandbox.FrameEnd, "s")
		time.Sleep(time.Minute)
	case "one that ends without a word":
		os.Exit(0)
	case "one that stops in the middle":
		say(sandbox.FrameHead, "{}")
		say(sandbox.FrameText, "half")
		os.Exit(0)
	case "one that closes its input":
		_ = os.Stdin.Close()
		time.Sleep(time.Minute)
	case "one that ignores signals":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

// parent starts a child on a document that hangs, and prints its number.
func parent() {
	sandbox.RunChild()
	pool, err := sandbox.New(1, document.DefaultLimits())
	if err != nil {
		panic(err)
	}
	go func() { _, _, _ = parseDocument(context.Background(), pool, "hang.pdf", documenttest.Tireless()) }()
	for {
		if pids := pool.PIDs(); len(pids) == 1 {
			fmt.Println(pids[0])
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Minute)
}
