package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/records/bolt"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
)

func open(t *testing.T, path string) *bolt.Store {
	store := musttest.Get(bolt.Open(path))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	recordstest.Run(t, func(t *testing.T) records.Store { return open(t, filepath.Join(t.TempDir(), "c.bolt")) })
}

func TestRecordsAndIdentitySurviveReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.bolt")
	store := open(t, path)
	require.NoError(t, store.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}}))
	before := musttest.Get(store.Identity(t.Context()))(t)
	require.NoError(t, store.RecordOwner(t.Context(), "aaaaaaaa0000"))
	require.NoError(t, store.Close())
	store = open(t, path)
	values, err := store.GetRecords(t.Context(), []string{"k"})
	assert.True(t, err == nil && string(values[0]) == "v", "got %q, %v", values, err)
	assert.Equal(t, before, musttest.Get(store.Identity(t.Context()))(t), "identity was %q and is", before)
	musttest.Code(t, store.RecordOwner(t.Context(), "bbbbbbbb0000"), fault.StoreOwned, "another owner")
}

func TestAFileThatIsMadeAnewHasAnotherIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.bolt")
	identity := func() string {
		store := open(t, path)
		defer func() { _ = store.Close() }()
		return musttest.Get(store.Identity(t.Context()))(t)
	}
	before := identity()
	require.NoError(t, os.Remove(path))
	assert.NotEqual(t, before, identity(), "a store that lost its memory says that it did not")
}

func TestADamagedFileIsNamedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.bolt")
	damaged := []byte("this is no database at all, but long enough to be looked at")
	require.NoError(t, os.WriteFile(path, damaged, 0o600))
	_, err := bolt.Open(path)
	assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == path, "got %v", err)
	assert.Equal(t, string(damaged), string(musttest.Get(os.ReadFile(path))(t)))
}

func TestAClosedStoreFailsTransiently(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "c.bolt"))
	require.NoError(t, store.Close())
	_, getErr := store.GetRecords(t.Context(), []string{"k"})
	_, identityErr := store.Identity(t.Context())
	for name, err := range map[string]error{
		"ping":     store.Ping(t.Context()),
		"put":      store.PutRecords(t.Context(), []records.Record{{Key: "k"}}),
		"delete":   store.DeleteRecords(t.Context(), []string{"k"}),
		"own":      store.RecordOwner(t.Context(), "x"),
		"scan":     store.ScanRecords(t.Context(), "", func([]string) error { return errors.New("called") }),
		"get":      getErr,
		"identity": identityErr,
	} {
		assert.True(t, fault.Is(err, fault.StoreDown), "%s: %v", name, err)
	}
}
