package box

// Args has the children of a pool be called with these arguments.
func (p *Pool) Args(args ...string) { p.args = args }

// PIDs are those of the children that are kept or at work.
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

// The words of the conversation, for children of tests that talk nonsense.
var (
	WriteFrame = writeFrame
	ReadFrame  = readFrame
)

const (
	FrameReady, FrameHead, FrameText, FrameFailed, FrameEnd = frameReady, frameHead, frameText, frameFailed, frameEnd

	Lifetime = lifetime
)
