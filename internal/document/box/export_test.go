package box

// Args has the children of a pool be called with these arguments.
func (p *Pool) Args(args ...string) { p.args = args }

// Confine is what a child does to itself.
var Confine = confine

// The words of the conversation, for children of tests that talk nonsense.
var (
	WriteFrame = writeFrame
	ReadFrame  = readFrame
)

const (
	FrameReady, FrameHead, FrameText, FrameFailed, FrameEnd = frameReady, frameHead, frameText, frameFailed, frameEnd

	Lifetime = lifetime
)
