package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestACorpusOutsideOfEveryRootIsRefused(t *testing.T) {
	root, outside, data := t.TempDir(), t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "docs"), 0o700))
	link := filepath.Join(root, "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Skip("no links here:", err)
	}
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{root}}, data))
	if _, err := stores.OpenCorpus(t.Context(), filepath.Join(root, "docs")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{outside, link, root + "/../" + filepath.Base(outside), "/etc", root + "x"} {
		_, err := stores.OpenCorpus(t.Context(), path)
		wants(t, err, fault.CorpusRefused, "stores.corpus_roots")
	}
	if err := stores.GrantCorpora(outside, true); err != nil { // without a data directory nothing is granted
		t.Fatal(err)
	}
	_, err := stores.OpenCorpus(t.Context(), outside)
	wants(t, err, fault.CorpusRefused, outside)
}

func TestWhatTheOwnerGrantsIsReadAlsoAfterARestart(t *testing.T) {
	kept, once, data := t.TempDir(), t.TempDir(), t.TempDir()
	file := filepath.Join(data, "roots.json")
	for round := range 2 {
		stores := open(t, app.FillPaths(config.Stores{}, t.TempDir()))
		require.NoError(t, stores.LoadGrants(file))
		if round == 0 {
			require.NoError(t, stores.GrantCorpora(kept, true))
			require.NoError(t, stores.GrantCorpora(once, false))
		}
		_, err := stores.OpenCorpus(t.Context(), kept)
		assert.NoError(t, err, "start %d", round)
		_, err = stores.OpenCorpus(t.Context(), once)
		assert.True(t, (err == nil) == (round == 0), "start %d, granted for a moment: %v", round, err)
	}
	info, err := os.Stat(file)
	assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
}

func TestABucketOfWhatIsBuiltIsNoCorpus(t *testing.T) {
	stores := open(t, app.FillPaths(config.Stores{}, t.TempDir()))
	stores.Place(config.Stores{Artifacts: "s3://own/artifacts", Milvus: config.Milvus{Bucket: "milvus"}})
	for _, uri := range []string{"s3://own", "s3://own/artifacts", "s3://own/artifacts/docs/segments", "s3://milvus/files"} {
		_, err := stores.OpenCorpus(t.Context(), uri)
		wants(t, err, fault.CorpusRefused, "prefix or a bucket of its own")
	}
}

func TestWhatThisProcessKeepsIsNoPartOfACorpus(t *testing.T) {
	project := t.TempDir()
	data := filepath.Join(project, "unweaver-data")
	require.NoError(t, os.WriteFile(filepath.Join(project, "a.txt"), []byte("a"), 0o600))
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{project}}, data))
	token := filepath.Join(data, "dev.json")
	require.NoError(t, os.WriteFile(token, []byte("{}"), 0o600))
	listed := func() (keys []string) {
		corpus := must(stores.OpenCorpus(t.Context(), project))(t)
		for info, err := range corpus.List(t.Context(), "", "") {
			if err == nil {
				keys = append(keys, info.Key)
			}
		}
		return keys
	}
	assert.Equal(t, []string{"a.txt", "unweaver-data/dev.json"}, listed(), "stores alone")
	stores.BarPaths(data)
	assert.Equal(t, []string{"a.txt"}, listed(), "with the data directory")
	for _, path := range []string{data, filepath.Join(data, "artifacts"), filepath.Join(data, "vectors")} {
		_, err := stores.OpenCorpus(t.Context(), path)
		wants(t, err, fault.CorpusRefused, "the data folder of this program")
	}
}
