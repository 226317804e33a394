package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

func TestASecondStackOverTheSameArtifactsIsRefusedAndToldWhoHasThem(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "artifacts")
	first, err := lockArtifacts(folder, "/data/one")
	require.NoError(t, err)
	_, err = lockArtifacts(folder, "/data/two")
	require.True(t, fault.Is(err, fault.DataDirInUse) && strings.Contains(err.Error(), "/data/one") &&
		strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())), "%v", err)
	require.NoError(t, first.Close())
	again, err := lockArtifacts(folder, "/data/two")
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
