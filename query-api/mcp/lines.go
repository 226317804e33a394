package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewTransport returns a transport of one message a line. It answers a line that is no message, at which the library
// would end.
func NewTransport(in io.Reader, out io.Writer) sdk.Transport {
	to := &lineWriter{Writer: out}
	return &sdk.IOTransport{Reader: &lineReader{in: bufio.NewReader(in), out: to}, Writer: to}
}

// lineWriter writes whole messages, and is not closed.
type lineWriter struct {
	io.Writer
	mu sync.Mutex
}

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(p)
}

// Close implements io.Closer.
func (*lineWriter) Close() error { return nil }

type lineReader struct {
	in   *bufio.Reader
	out  io.Writer
	line []byte // what is left of the message that is passed on
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.line) == 0 {
		line, err := r.in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if wrong := checkMessage(line, true); wrong == nil {
				r.line = append(line, '\n')
				break
			} else {
				raw, _ := json.Marshal(Reply{JSONRPC: "2.0", ID: idOf(line), Error: wrong}) // it always marshals
				_, _ = r.out.Write(append(raw, '\n'))                                       // the client may have gone
			}
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}

// Close implements io.Closer.
func (*lineReader) Close() error { return nil }
