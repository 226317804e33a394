package sandbox

import (
	"context"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/document"
)

// Args has the children of a pool be called with these arguments.
func (p *Pool) Args(args ...string) { p.args = [2][]string{args, args} }

// Confine is what a child does to itself.
var Confine = confineProcess

// The words of the conversation, for children of tests that talk nonsense.
var (
	WriteFrame = writeFrame
	ReadFrame  = readFrame
)

const (
	FrameReady, FrameHead, FrameText, FrameFailed, FrameEnd = frameReady, frameHead, frameText, frameFailed, frameEnd

	Lifetime     = lifetime
	BoundsMemory = boundsMemory
)

// Closed reports whether Close has begun, and killed those who are at work.
func (p *Pool) Closed() bool { return p.isClosed() }

// Closing has Close wait so long for who is at work.
func (p *Pool) Closing(most time.Duration) { p.closing = most }

// Session parses in a session whose context may end at its very beginning.
func (p *Pool) Session(ctx context.Context) error {
	one, err := p.takeChild(context.WithoutCancel(ctx), false, false)
	if err != nil {
		return err
	}
	talk := newSession(ctx, p, one, "a.html", clock{left: p.limits.Time})
	time.Sleep(100 * time.Millisecond)
	_, err = talk.parseObject(&source{reader: strings.NewReader("<p>x</p>")}, document.HTML)
	return err
}
