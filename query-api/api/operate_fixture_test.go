package api_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/query-api/api"
)

// ownerToken is what the owner of a data directory shows.
const ownerToken = "the-token-of-dev-json"

// folders opens every corpus as the folder that it is.
type folders struct{}

func (folders) OpenCorpus(_ context.Context, uri string) (blob.Store, error) {
	return dir.OpenCorpus(uri)
}
func (folders) GrantCorpora(string, bool) error { return nil }

// operated is a server with control, whose owner asks.
type operated struct {
	*fixture
	control *controltest.Fake
	corpus  string // folder of the index sample
	desk    *desk.Desk
}

// operate serves the sample with control and a corpus; edit may change the configuration.
func operate(t testing.TB, edit func(*fixture, *api.Config)) *operated {
	t.Helper()
	o := &operated{control: &controltest.Fake{Runs: map[string]control.Status{}}, corpus: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(o.corpus, "old.txt"), []byte("old"), 0o600))
	cfg := must(config.Load(config.Source{Set: []string{"indexes.sample.corpus=" + o.corpus}}))(t)
	o.fixture = serve(t, func(f *fixture, c *api.Config) {
		f.token, c.Policy.Token = ownerToken, ownerToken
		o.desk = &desk.Desk{
			Connect: func(context.Context) (control.Control, error) { return o.control, nil },
			Config:  cfg, Artifacts: f.store, Corpora: folders{}, MostBytes: 1 << 20,
		}
		if c.Desk = o.desk; edit != nil {
			edit(f, c)
		}
	})
	return o
}
