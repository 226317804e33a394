package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/pkitest"
)

func authority(t *testing.T) *pki.Authority { return musttest.Get(pki.New("test", time.Hour))(t) }

// serve answers "hello" to all whom the configuration lets in, and gives the address.
func serve(t *testing.T, config *tls.Config) string {
	listener := musttest.Get(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write([]byte("hello"))
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// greeted dials and reads what a server says to those whom it lets in.
func greeted(address string, config *tls.Config) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", address, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "hello" {
		err = errors.New("it says nothing")
	}
	return err
}

func TestOnlyClientsOfTheAuthorityAreLetIn(t *testing.T) {
	own, other := authority(t), authority(t)
	hosts := []string{"localhost", "127.0.0.1"}
	serving, calling, err := pkitest.Mutual(own.Pair().Cert, musttest.Get(own.IssueServer(hosts, time.Hour))(t), "")
	require.NoError(t, err)
	address := serve(t, serving)
	_, client := musttest.Get2(pkitest.Mutual(own.Pair().Cert, musttest.Get(own.IssueClient("c", time.Hour))(t), ""))(t)
	assert.NoError(t, greeted(address, client), "a client of the authority")
	assert.NoError(t, greeted(address, calling), "a server of the authority, calling")
	_, stranger, err := pkitest.Mutual(own.Pair().Cert, musttest.Get(other.IssueClient("c", time.Hour))(t), "")
	require.NoError(t, err)
	none := client.Clone()
	none.Certificates = nil
	expired, old := client.Clone(), musttest.Get(own.IssueClient("c", -time.Minute))(t)
	pair := musttest.Get(tls.X509KeyPair(old.Cert, old.Key))(t)
	expired.Certificates = []tls.Certificate{pair}
	for name, config := range map[string]*tls.Config{
		"a client of another authority": stranger, "a client without certificate": none, "an expired one": expired,
	} {
		assert.Error(t, greeted(address, config), "%s is let in", name)
	}
}

func TestAClientTalksToNoServerButTheOneThatItMeans(t *testing.T) {
	own, other := authority(t), authority(t)
	_, client, err := pkitest.Mutual(own.Pair().Cert, musttest.Get(own.IssueClient("c", time.Hour))(t), "temporal")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		pair pki.Pair
		want bool
	}{
		"the named server":             {musttest.Get(own.IssueServer([]string{"temporal"}, time.Hour))(t), true},
		"one of another name":          {musttest.Get(own.IssueServer([]string{"elsewhere", "127.0.0.1"}, time.Hour))(t), false},
		"one of another authority":     {musttest.Get(other.IssueServer([]string{"temporal"}, time.Hour))(t), false},
		"a client that plays a server": {musttest.Get(own.IssueClient("temporal", time.Hour))(t), false},
	} {
		serving, _ := musttest.Get2(pkitest.Mutual(own.Pair().Cert, c.pair, ""))(t)
		err := greeted(serve(t, serving), client)
		assert.True(t, (err == nil) == c.want, "%s: %v", name, err)
	}
}

func TestACertificateOfAClientMakesNoOthers(t *testing.T) {
	own := authority(t)
	block, _ := pem.Decode(musttest.Get(own.IssueClient("c", time.Hour))(t).Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	assert.True(t, err == nil && !cert.IsCA && cert.KeyUsage&x509.KeyUsageCertSign == 0, "%+v, %v", cert, err)
}

func TestFilesAreTheOwnersAndAreNotReplacedUnasked(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "tls")
	first := []pki.File{{Name: pki.AuthorityFile, Content: []byte("1")}, {Name: pki.ClientKeyFile, Content: []byte("1")}}
	require.NoError(t, pki.Write(folder, first, false))
	for _, name := range []string{"", pki.AuthorityFile, pki.ClientKeyFile} {
		info, err := os.Stat(filepath.Join(folder, name))
		assert.True(t, err == nil && info.Mode().Perm()&0o077 == 0, "%q: %v, %v", name, info.Mode(), err)
	}
	second := []pki.File{{Name: pki.ServerFile, Content: []byte("2")}, {Name: pki.ClientKeyFile, Content: []byte("2")}}
	assert.ErrorIs(t, pki.Write(folder, second, false), fs.ErrExist, "written over")
	assert.Error(t, musttest.Err(os.Stat(filepath.Join(folder, pki.ServerFile))), "a refused writing wrote its first file")
	require.NoError(t, pki.Write(folder, second, true))
	assert.Equal(t, "2", string(musttest.Get(os.ReadFile(filepath.Join(folder, pki.ClientKeyFile)))(t)))
}

func TestALinkInTheWayOfAFileIsNotFollowed(t *testing.T) {
	folder, outside := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
	if err := os.Symlink(outside, filepath.Join(folder, pki.ClientKeyFile)); err != nil {
		t.Skip("no links here:", err)
	}
	require.NoError(t, pki.Write(folder, []pki.File{{Name: pki.ClientKeyFile, Content: []byte("key")}}, true))
	assert.Equal(t, "mine", string(musttest.Get(os.ReadFile(outside))(t)))
}
