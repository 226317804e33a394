package tembed

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/rpc/encryption"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/fault"
)

// CertsFolder is the folder of a data directory that holds what a client of the server needs: ca.pem, client.pem and
// client-key.pem, for the owner of the data directory alone.
const CertsFolder = "tls"

const (
	// validity of certificates. They do not outlive their server, but one that is told to keep them.
	validity = 366 * 24 * time.Hour
	// renewal is how much of it must be left where certificates are used again.
	renewal = 30 * 24 * time.Hour
)

// certificates are what the parts of a server know each other by, and its clients. The services behind the frontend
// have an authority of their own, whose key nobody keeps: a client's certificate opens the frontend alone.
func certificates(dir string, keep bool) (encryption.TLSConfigProvider, *tls.Config, error) {
	folder := filepath.Join(dir, CertsFolder)
	inner, err := pki.New("unweaver temporal services", validity)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	services, err := inner.Server([]string{localhost}, validity)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	between, calling, err := pki.Mutual(inner.Pair().Cert, services, localhost)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	outer, err := frontend(folder, keep)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	serving, _, err := pki.Mutual(outer.ca, outer.server, localhost)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	_, client, err := pki.Mutual(outer.ca, outer.client, localhost)
	if err != nil {
		return nil, nil, uncertain(folder, err)
	}
	return &encryption.FixedTLSConfigProvider{
		InternodeServerConfig: between, InternodeClientConfig: calling,
		FrontendServerConfig: serving, FrontendClientConfig: client,
	}, client, nil
}

func uncertain(folder string, err error) error {
	return fault.StoreDenied.At("make certificates in", folder).
		Because(err).
		Advise("let the owner of the data directory write there: the engine listens to nobody without them")
}

// issued are the certificates of a frontend and its clients.
type issued struct {
	ca             []byte
	server, client pki.Pair
}

// frontend makes certificates and writes what clients need. With keep, those of the folder are used again while they
// are valid, and the server's are kept beside them: clients in other processes go on after a restart.
func frontend(folder string, keep bool) (issued, error) {
	if keep {
		if kept, err := read(folder); err == nil && lasts(kept) {
			return kept, nil
		}
	}
	if err := pki.Remove(folder); err != nil { // of a process that was killed
		return issued{}, err
	}
	authority, err := pki.New("unweaver temporal", validity)
	if err != nil {
		return issued{}, err
	}
	made := issued{ca: authority.Pair().Cert}
	if made.server, err = authority.Server([]string{localhost, "localhost", "::1"}, validity); err != nil {
		return made, err
	}
	if made.client, err = authority.Client("owner of the data directory", validity); err != nil {
		return made, err
	}
	files := []pki.File{
		{Name: pki.AuthorityFile, Content: made.ca},
		{Name: pki.ClientFile, Content: made.client.Cert}, {Name: pki.ClientKeyFile, Content: made.client.Key},
	}
	if keep {
		files = append(files, pki.File{Name: pki.ServerFile, Content: made.server.Cert},
			pki.File{Name: pki.ServerKeyFile, Content: made.server.Key})
	}
	return made, pki.Write(folder, files, true)
}

func read(folder string) (issued, error) {
	var out issued
	var errs error
	for name, content := range map[string]*[]byte{
		pki.AuthorityFile: &out.ca, pki.ServerFile: &out.server.Cert, pki.ServerKeyFile: &out.server.Key,
		pki.ClientFile: &out.client.Cert, pki.ClientKeyFile: &out.client.Key,
	} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		*content, errs = raw, errors.Join(errs, err)
	}
	return out, errs
}

// lasts tells whether certificates that were kept fit together and are valid for a while.
func lasts(kept issued) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(kept.ca) {
		return false
	}
	for _, pair := range []pki.Pair{kept.server, kept.client} {
		if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
			return false
		}
		block, _ := pem.Decode(pair.Cert)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return false
		}
		if _, err := cert.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: time.Now().Add(renewal),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}); err != nil {
			return false
		}
	}
	return true
}

// Certificates are the files of a client in a data directory, whose server runs.
func Certificates(dir string) (ca, cert, key string, err error) {
	at := func(name string) string { return filepath.Join(dir, CertsFolder, name) }
	ca, cert, key = at(pki.AuthorityFile), at(pki.ClientFile), at(pki.ClientKeyFile)
	if _, err = os.Stat(key); errors.Is(err, fs.ErrNotExist) {
		err = fault.EngineDown.At("find the certificates of Temporal in", filepath.Join(dir, CertsFolder)).
			Because("there are none").
			Advise("start it first: its owner's certificates are there while it runs")
	}
	return ca, cert, key, err
}
