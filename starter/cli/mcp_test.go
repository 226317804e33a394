package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/cli"
)

// The tools on standard input and output are those of a server, asked with the key of the environment; what the client
// reads is protocol alone, and the command ends when the client does.
func TestAnAgentIsServedOnStandardInputAndOutput(t *testing.T) {
	keys := make(chan string, 8)
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		keys <- request.Header.Get("Authorization")
		if strings.HasSuffix(request.URL.Path, "/chunks/lost") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"not_found","detail":"find chunk lost: there is none of that id"}`)
			return
		}
		_, _ = io.WriteString(w, answered)
	}))
	defer served.Close()
	t.Chdir(t.TempDir())
	asks, asked := io.Pipe()
	output, reported := io.Pipe()
	var errs strings.Builder
	app := &cli.App{
		In: asks, Out: reported, Err: &errs, Env: []string{"UNWEAVER_API_KEY=uwk_k"},
		Connect: withConnection(&fakeControl{}, served.URL),
	}
	exit := make(chan int, 1)
	go func() {
		exit <- app.Run(context.WithoutCancel(t.Context()), []string{"mcp"})
		_ = reported.Close()
	}()
	var lines strings.Builder
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&sdk.IOTransport{Reader: io.NopCloser(io.TeeReader(output, &lines)), Writer: asked}, nil)
	require.NoError(t, err)
	call := func(name string, arguments map[string]any) *sdk.CallToolResult {
		t.Helper()
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
		require.NoError(t, err)
		return result
	}
	result := call("answer", map[string]any{"index": "docs", "query": "who wove it?"})
	text := result.Content[0].(*sdk.TextContent).Text
	assert.True(t, !result.IsError && strings.HasPrefix(text, "Arachne.") &&
		strings.Contains(text, "Arachne   wove\n it."), "%s", text)
	assert.Equal(t, "Bearer uwk_k", <-keys, "asked with")
	lost := call("get_chunk", map[string]any{"index": "docs", "chunk": "lost"})
	text = lost.Content[0].(*sdk.TextContent).Text
	assert.True(t, lost.IsError && strings.Contains(text, "none of that id"), "%s", text)
	assert.NoError(t, session.Close())
	select {
	case code := <-exit:
		assert.True(t, code == cli.ExitDone, "exit %d: %s", code, errs.String())
	case <-time.After(time.Minute):
		t.Fatal("the command goes on without a client")
	}
	for _, line := range strings.Split(strings.TrimSpace(lines.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), "no protocol: %q", line)
	}
}

func TestAnAgentsServerThatIsDownIsAnErrorOfTheTool(t *testing.T) {
	tools := httptest.NewServer(http.NotFoundHandler())
	tools.Close()
	t.Chdir(t.TempDir())
	message := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_indexes","arguments":{}}}` + "\n"
	reads, writes := io.Pipe()
	output, reported := io.Pipe()
	app := &cli.App{In: reads, Out: reported, Err: io.Discard, Connect: withConnection(&fakeControl{}, tools.URL)}
	go func() { app.Run(context.WithoutCancel(t.Context()), []string{"mcp"}); _ = reported.Close() }()
	go func() { _, _ = io.WriteString(writes, message) }()
	decoder := json.NewDecoder(output)
	var reply struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	for reply.ID != 2 {
		require.NoError(t, decoder.Decode(&reply))
	}
	assert.True(t, reply.Result.IsError &&
		strings.Contains(reply.Result.Content[0].Text, "check that query-api runs there"), "%+v", reply)
	_ = writes.Close()
}
