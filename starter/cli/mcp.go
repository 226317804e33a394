package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/query-api/mcp"
)

// mcpCmd speaks the Model Context Protocol on standard input and output: nothing else is written there.
func (a *App) mcpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve tools for agents on standard input and output (Model Context Protocol)",
		Long: "Serve tools for agents on standard input and output (Model Context Protocol): search, answer, explain,\n" +
			"get_chunk, get_document, list_indexes. They ask the query-api of the configuration, or the embedded stack\n" +
			"of the data directory, which is started where none runs.",
		Args: arguments(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			in, out := command.InOrStdin(), command.OutOrStdout()
			return a.withQueries(command.Context(), func(ctx context.Context, queries string) error {
				tools := mcp.New(mcp.Remote{Client: queryClient, Base: queries, Key: keyOf(ctx)})
				to := &open{Writer: out}
				err := tools.Run(ctx, &sdk.IOTransport{Reader: &messages{bufio.NewReader(in), to, nil}, Writer: to})
				if ctx.Err() != nil { // the client has ended this program, as they do
					return nil
				}
				return err
			})
		},
	}
}

// open is a writer of whole messages that is not closed.
type open struct {
	io.Writer
	mu sync.Mutex
}

// Write implements io.Writer.
func (o *open) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Writer.Write(p)
}

// Close implements io.Closer.
func (*open) Close() error { return nil }

// messages passes on lines that are JSON objects. It answers others itself, since the library ends at one.
type messages struct {
	in   *bufio.Reader
	out  io.Writer
	line []byte // what is left of the one that is passed on
}

// Read implements io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.line) == 0 {
		line, err := m.in.ReadBytes('\n')
		line = bytes.TrimSpace(line)
		switch {
		case bytes.HasPrefix(line, []byte("{")) && json.Valid(line):
			m.line = append(line, '\n')
		case len(line) > 0:
			_, _ = io.WriteString(m.out, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":`+
				`"the line is no JSON object"}}`+"\n") // the client may have gone
		}
		if err != nil && len(m.line) == 0 {
			return 0, err
		}
	}
	n := copy(p, m.line)
	m.line = m.line[n:]
	return n, nil
}

// Close implements io.Closer.
func (*messages) Close() error { return nil }
