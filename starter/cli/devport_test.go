package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli"
)

// What dev does not take from the configuration it says; it serves loopback alone, and no TLS.
func TestWhereDevServes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		address string
		given   bool
		port    int
		says    string
	}{
		"nothing is configured":      {"", false, 8080, ""},
		"another port":               {"127.0.0.1:9999", false, 9999, ""},
		"another port, and a flag":   {"localhost:9999", true, 8080, "--http-port 8080 overrides"},
		"another loopback":           {"127.0.0.2:9999", false, 9999, "serves only 127.0.0.1:9999"},
		"every address":              {"0.0.0.0:9999", false, 8080, "0.0.0.0:9999 is ignored"},
		"a URL of a proxy before it": {"https://q.example", false, 8080, ""},
	} {
		var set []string
		if c.address != "" {
			set = []string{"query_api.address=" + c.address}
		}
		cfg, err := config.Load(config.Source{Path: "none.yaml", Missing: true, Set: set})
		require.NoError(t, err)
		port, note, err := cli.DevPort(cfg, 8080, c.given)
		assert.True(t, err == nil && port == c.port && (note == "") == (c.says == "") && strings.Contains(note, c.says),
			"%s: %d %q %v", name, port, note, err)
	}
	cfg := config.Default()
	cfg.QueryAPI.TLS.Cert = "cert.pem"
	if _, _, err := cli.DevPort(cfg, 8080, false); !fault.Is(err, fault.BadConfig) ||
		!strings.Contains(err.Error(), "plain HTTP") {
		t.Errorf("%v", err)
	}
}
