package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/testkit/pkitest"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestTheCodecKeyIsMadeOnceAndKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "codec.key")
	first, again := in(t, nil, nil, "certs", "codec-key", file), in(t, nil, nil, "certs", "codec-key", file, "--json")
	id, _ := decoded(t, again.out)["key"].(string)
	assert.True(t, first.exit == cli.ExitDone && again.exit == cli.ExitDone && id != "" && strings.Contains(first.out, id),
		"%+v, %+v", first, again)
}

func TestCertificatesOfAServerAndItsClientsAreMadeAndFitTogether(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	got := in(t, nil, nil, "certs", "create", folder, "--host", "temporal", "--host", "127.0.0.1")
	require.True(t, got.exit == cli.ExitDone && strings.Count(got.out, "written: ") == 6, "%+v", got)
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		return raw
	}
	for _, pair := range [][2]string{{"server.pem", "server-key.pem"}, {"client.pem", "client-key.pem"}} {
		both := pki.Pair{Cert: read(pair[0]), Key: read(pair[1])}
		if _, _, err := pkitest.Mutual(read("ca.pem"), both, ""); err != nil {
			t.Errorf("%s: %v", pair[0], err)
		}
	}
	key := string(read("ca-key.pem"))
	if got = in(t, nil, nil, "certs", "create", folder, "--host", "temporal"); got.exit != cli.ExitUsage ||
		!strings.Contains(got.err, "already exists") || string(read("ca-key.pem")) != key {
		t.Errorf("written over: %+v", got)
	}
	got = in(t, nil, nil, "certs", "create", folder, "--host", "temporal", "--force", "--json")
	if got.exit != cli.ExitDone || len(decoded(t, got.out)["written"].([]any)) != 6 || string(read("ca-key.pem")) == key {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{
		{"certs", "create"}, {"certs", "create", folder},
		{"certs", "create", folder, "--host", "temporal", "--force", "--days", "0"},
	} {
		got = in(t, nil, nil, args...)
		assert.True(t, got.exit == cli.ExitUsage, "%v: %+v", args, got)
	}
}
