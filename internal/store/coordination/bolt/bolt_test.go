package bolt_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
	"github.com/unweaver/unweaver/internal/testkit/coordinationtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func open(t *testing.T, path string) *bolt.Store {
	store := musttest.Get(bolt.Open(path))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	coordinationtest.Run(t, func(t *testing.T) coordination.Store {
		return open(t, filepath.Join(t.TempDir(), "c.bolt.runs"))
	})
}

// victim names the file that the test's own program writes to before it kills itself.
const victim = "UNWEAVER_TEST_KILLED_STORE"

// What a run has spent must be known after a kill: a budget that starts again from nothing has no effect.
func TestAccountsAndControlOutliveAKilledProcess(t *testing.T) {
	if path := os.Getenv(victim); path != "" {
		store := open(t, path)
		require.NoError(t, store.SetControl(t.Context(), "i/g", []byte("paused")))
		musttest.Get2(store.ExchangeAccount(t.Context(), "i/g", "worker-1", []byte("41 calls")))(t)
		require.NoError(t, store.SetProblem(t.Context(), "i/g", "chat", []byte("no answer")))
		musttest.Get(store.TakeQuota(t.Context(), "s", "1", coordination.Use{1, 1, 10, 5}, coordination.Unlimited))(t)
		require.NoError(t, store.SettleQuota(t.Context(), "s", "1", coordination.Use{1, 1, 7, 3}))
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Minute)
	}
	path := filepath.Join(t.TempDir(), "c.bolt.runs")
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), victim+"="+path)
	out, err := child.CombinedOutput()
	require.True(t, err != nil && len(out) <= 0, "the child ended by itself: %v\n%s", err, out)
	store := open(t, path)
	control, all, err := store.ExchangeAccount(t.Context(), "i/g", "worker-2", []byte("1 call"))
	assert.True(t, err == nil && string(control) == "paused" && string(all["worker-1"]) == "41 calls" && len(all) == 2,
		"control %q, accounts %q, %v", control, all, err)
	quota := musttest.Get(store.TakeQuota(t.Context(), "s", "", coordination.Use{}, coordination.Unlimited))(t)
	if quota.Renews < 24*time.Hour-time.Minute { // else midnight may have passed between the two processes
		assert.Equal(t, coordination.Use{1, 1, 7, 3}, quota.Used, "what was spent of a quota")
	}
	problems, err := store.ReadProblems(t.Context(), "i/g")
	assert.True(t, err == nil && string(problems["chat"]) == "no answer", "problems %q, %v", problems, err)
}

func TestADamagedFileIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.bolt.runs")
	damaged := []byte("this is no database at all, but long enough to be looked at")
	require.NoError(t, os.WriteFile(path, damaged, 0o600))
	assert.NoError(t, open(t, path).SetState(t.Context(), "r", []byte("x")))
	_, err := bolt.Open(path) // a file of another process is not taken for a damaged one
	assert.True(t, fault.Is(err, fault.DataDirInUse), "%v", err)
}

func TestOneRunIsNoPrefixOfAnother(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "c.bolt.runs"))
	for _, run := range []string{"i/g", "i/g1"} {
		musttest.Get2(store.ExchangeAccount(t.Context(), run, "w", []byte(run)))(t)
	}
	require.NoError(t, store.ForgetRun(t.Context(), "i/g"))
	all, err := store.ReadAccounts(t.Context(), "i/g1")
	assert.True(t, err == nil && string(all["w"]) == "i/g1", "accounts %q, %v", all, err)
}

func TestAClosedStoreFailsTransiently(t *testing.T) {
	store := open(t, filepath.Join(t.TempDir(), "c.bolt.runs"))
	require.NoError(t, store.Close())
	_, _, spendErr := store.ExchangeAccount(t.Context(), "r", "w", nil)
	_, leasedErr := store.ListLeased(t.Context(), "i")
	for name, err := range map[string]error{
		"forget": store.ForgetRun(t.Context(), "r"),
		"mirror": store.Mirror(t.Context(), "i", nil),
		"spend":  spendErr,
		"leased": leasedErr,
	} {
		assert.True(t, fault.Is(err, fault.StoreDown), "%s: %v", name, err)
	}
}
