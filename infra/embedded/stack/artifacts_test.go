package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestASecondStackOverTheSameArtifactsIsRefusedAndToldWhoHasThem(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "artifacts")
	first := musttest.Get(lockArtifacts(folder, "/data/one"))(t)
	_, err := lockArtifacts(folder, "/data/two")
	musttest.Fail(t, err, fault.DataDirInUse, "/data/one", fmt.Sprint("process ", os.Getpid()))
	require.NoError(t, first.Close())
	require.NoError(t, musttest.Get(lockArtifacts(folder, "/data/two"))(t).Close())
}
