package mcp_test

import (
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/query-api/mcp"
)

func TestALineThatIsNoMessageIsAnswered(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	var out strings.Builder
	lines := strings.Join([]string{"garbage", good, "", `{"jsonrpc":"2.0","id":5}`, "5", good + "\r", `{"jsonrpc":`}, "\n")
	passed, err := io.ReadAll(mcp.NewTransport(strings.NewReader(lines), &out).(*sdk.IOTransport).Reader)
	assert.NoError(t, err)
	assert.Equal(t, good+"\n"+good+"\n", string(passed))
	sent := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Len(t, sent, 4)
	for i, begins := range []string{
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32600,`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`,
	} {
		assert.True(t, strings.HasPrefix(sent[i], begins), "%s", sent[i])
	}
}
