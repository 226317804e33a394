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
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func open(t *testing.T, stores config.Stores) *app.Stores {
	opened := musttest.Get(app.Open(t.Context(), stores))(t)
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func TestADataDirectoryHoldsEveryStoreAndIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	var id string
	for i := range 2 {
		stores := open(t, app.FillPaths(config.Stores{}, dir))
		if i == 0 {
			id = stores.StoreID
			require.NoError(t, stores.Records.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}}))
			require.NoError(t, stores.Coordination.SetAccount(t.Context(), "i/g", "w", []byte("7")))
			require.NoError(t, stores.Vectors.Create(t.Context(), "c", 4))
		}
		values, err := stores.Records.GetRecords(t.Context(), []string{"k"})
		assert.True(t, err == nil && string(values[0]) == "v", "records: %q, %v", values, err)
		accounts, err := stores.Coordination.ReadAccounts(t.Context(), "i/g")
		assert.True(t, err == nil && string(accounts["w"]) == "7", "accounts: %q, %v", accounts, err)
		n, err := stores.Vectors.Count(t.Context(), "c")
		assert.True(t, err == nil && n == 0, "vectors: %d, %v", n, err)
		assert.True(t, stores.StoreID != "" && stores.StoreID == id && stores.Staging == nil,
			"the artifact store was %q and is %q", id, stores.StoreID)
		require.NoError(t, stores.Close())
	}
	for _, name := range []string{"artifacts", "classes.bolt", "classes.bolt.runs", "vectors"} { // where they always lay
		_, err := os.Stat(filepath.Join(dir, name))
		assert.NoError(t, err)
	}
}

func TestADataDirectoryInUseIsRefusedAndNotHarmed(t *testing.T) {
	dir := t.TempDir()
	first := open(t, app.FillPaths(config.Stores{}, dir))
	musttest.Refuse(app.Open(t.Context(), app.FillPaths(config.Stores{}, dir)))(t, fault.DataDirInUse, "classes.bolt")
	assert.NoError(t, first.Coordination.SetState(t.Context(), "i/g", []byte("x")))
}

// Records are named by content alone: those of another artifact store would be taken for one's own.
func TestRecordsOfAnotherArtifactStoreAreRefused(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	require.NoError(t, open(t, app.FillPaths(config.Stores{}, first)).Close())
	mixed := app.FillPaths(config.Stores{Classes: filepath.Join(first, "classes.bolt")}, second)
	musttest.Refuse(app.Open(t.Context(), mixed))(t, fault.StoreOwned, "another artifact store")
	open(t, app.FillPaths(config.Stores{}, first)) // what was refused was closed again
}

// A store.json that was lost or damaged with its copy has a way back without a backup: the file of records knows the
// id.
func TestALostStoreIDIsToldByTheRecordsAndWrittenBack(t *testing.T) {
	dir := t.TempDir()
	embedded := app.FillPaths(config.Stores{}, dir)
	first := open(t, embedded)
	id := first.StoreID
	require.NoError(t, first.Close())
	file := filepath.Join(dir, "artifacts", "store.json")
	both := []string{file, file + ".copy"}
	for _, one := range both {
		require.NoError(t, os.WriteFile(one, nil, 0o600))
	}
	_, err := app.Open(t.Context(), embedded)
	musttest.Fail(t, err, fault.SegmentDamage, file+" back from a backup; or remove both and start again")
	for _, one := range both {
		require.NoError(t, os.Remove(one))
	}
	back := `{"id":"` + id + `"}`
	for range 2 { // the first start makes another id
		_, err = app.Open(t.Context(), embedded)
		musttest.Fail(t, err, fault.StoreOwned, "store.json of this artifact store was lost, write "+back)
	}
	for _, one := range both {
		require.NoError(t, os.WriteFile(one, []byte(back), 0o600))
	}
	assert.Equal(t, id, open(t, embedded).StoreID, "the id was")
}

func TestAURLWithoutAnAdapterNamesTheSetting(t *testing.T) {
	for setting, stores := range map[string]config.Stores{
		"stores.artifacts": {Artifacts: "gopher://x"},
		"stores.classes":   {Classes: "memcached://x"},
		"stores.vectors":   {Vectors: "qdrant://x"},
	} {
		musttest.Refuse(app.Open(t.Context(), app.FillPaths(stores, t.TempDir())))(t, fault.BadConfig, setting)
	}
}

func TestBothPortsOverRedisShareOneConnection(t *testing.T) {
	stores := open(t, app.FillPaths(config.Stores{Classes: redistest.Server(t)}, t.TempDir()))
	require.NoError(t, stores.Coordination.SetState(t.Context(), "i/g", []byte("x")))
	key := stores.StoreID[:8] + ":state:i/g" // the prefix that records took is coordination's too
	n, err := redistest.Raw(t, redistest.Server(t)).Exists(t.Context(), key).Result()
	assert.True(t, err == nil && n == 1, "%d keys %s, %v", n, key, err)
	assert.NoError(t, stores.Close())
}

func TestACorpusIsAFolderOrABucket(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o600))
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{dir}}, t.TempDir()))
	corpus := musttest.Get(stores.OpenCorpus(t.Context(), dir))(t)
	raw, _, err := blob.Read(t.Context(), corpus, "a.txt")
	assert.True(t, err == nil && string(raw) == "text", "got %q, %v", raw, err)
	for uri, want := range map[string]struct {
		code fault.Code
		says string
	}{
		"":                            {fault.CorpusMissing, "indexes.<name>.corpus"},
		filepath.Join(dir, "missing"): {fault.CorpusMissing, "missing"},
		"ftp://host/folder":           {fault.BadConfig, "ftp://"},
		"s3://":                       {fault.BadConfig, "s3://bucket/prefix"},
	} {
		musttest.Refuse(stores.OpenCorpus(t.Context(), uri))(t, want.code, want.says)
	}
}

func TestProgramsThatShareStoresRefusePaths(t *testing.T) {
	all := config.Stores{Artifacts: "s3://b", Classes: "redis://h", Vectors: "milvus://h"}
	assert.NoError(t, all.NoPaths("the worker"))
	for setting, change := range map[string]func(*config.Stores){
		"stores.artifacts is a path": func(s *config.Stores) { s.Artifacts = "/data" },
		"stores.classes is not set":  func(s *config.Stores) { s.Classes = "" },
		"stores.vectors is a path":   func(s *config.Stores) { s.Vectors = "vectors" },
	} {
		stores := all
		change(&stores)
		musttest.Fail(t, stores.NoPaths("the worker"), fault.BadConfig, setting)
	}
}

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
		musttest.Refuse(stores.OpenCorpus(t.Context(), path))(t, fault.CorpusRefused, "stores.corpus_roots")
	}
	if err := stores.GrantCorpora(outside, true); err != nil { // without a data directory nothing is granted
		t.Fatal(err)
	}
	musttest.Refuse(stores.OpenCorpus(t.Context(), outside))(t, fault.CorpusRefused, outside)
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
		musttest.Refuse(stores.OpenCorpus(t.Context(), uri))(t, fault.CorpusRefused, "prefix or a bucket of its own")
	}
}

func TestWhatThisProcessKeepsIsNoPartOfACorpus(t *testing.T) {
	project := t.TempDir()
	data := filepath.Join(project, "unweaver-data")
	require.NoError(t, os.WriteFile(filepath.Join(project, "a.txt"), []byte("a"), 0o600))
	stores := open(t, app.FillPaths(config.Stores{CorpusRoots: []string{project}}, data))
	require.NoError(t, os.WriteFile(filepath.Join(data, "dev.json"), []byte("{}"), 0o600))
	listed := func() (keys []string) {
		corpus := musttest.Get(stores.OpenCorpus(t.Context(), project))(t)
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
		musttest.Refuse(stores.OpenCorpus(t.Context(), path))(t, fault.CorpusRefused, "the data folder of this program")
	}
}
