package scratch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// asProcess makes the test binary a process that uses scratch, prints its folder, and waits to be killed.
const asProcess = "UNWEAVER_TEST_SCRATCH"

func TestMain(m *testing.M) {
	if below := os.Getenv(asProcess); below != "" {
		if err := scratch.Use(below); err != nil {
			panic(err)
		}
		folder, err := scratch.CreateFolder()
		if err != nil {
			panic(err)
		}
		file, err := scratch.CreateFile()
		if err != nil {
			panic(err)
		}
		if _, err := file.WriteString("text of a document"); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(folder + "\n")
		time.Sleep(time.Minute)
		panic(file.Close())
	}
	os.Exit(m.Run())
}

// begin starts such a process and gives the folder that it made.
func begin(t *testing.T, below string) (process *exec.Cmd, made string) {
	process = exec.Command(os.Args[0])
	process.Env = append(os.Environ(), asProcess+"="+below)
	out := musttest.Get(process.StdoutPipe())(t)
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	line := make([]byte, 4096)
	n := musttest.Get(out.Read(line))(t)
	return process, strings.TrimSpace(string(line[:n]))
}

// age lets folders be as old as those of processes that are long gone.
func age(t *testing.T, folders ...string) {
	old := time.Now().Add(-time.Hour)
	for _, folder := range folders {
		require.NoError(t, os.Chtimes(folder, old, old))
	}
}

func TestAKilledProcessLeavesNoFileAndItsFoldersGoWithTheNext(t *testing.T) {
	below := t.TempDir()
	dead, deadMade := begin(t, below)
	_, livingMade := begin(t, below)
	files, err := os.ReadDir(filepath.Dir(deadMade))
	assert.True(t, err == nil && len(files) == 1, "%v, %v: a file has a name", files, err)
	require.NoError(t, dead.Process.Kill())
	_ = dead.Wait()
	age(t, filepath.Dir(deadMade), filepath.Dir(livingMade))
	require.NoError(t, scratch.Use(below))
	_, err = os.Stat(filepath.Dir(deadMade))
	assert.True(t, errors.Is(err, os.ErrNotExist), "what a dead process left is there: %v", err)
	assert.NoError(t, musttest.Err(os.Stat(livingMade)), "a living process lost its folder")
}

func TestScratchIsItsOwnersAloneAndBelowTheGivenFolder(t *testing.T) {
	below := t.TempDir()
	require.NoError(t, scratch.Use(below))
	folder := musttest.Get(scratch.CreateFolder())(t)
	assert.True(t, strings.HasPrefix(folder, filepath.Join(below, "scratch")+"/"), "%s lies elsewhere", folder)
	for path := folder; path != below; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		assert.True(t, err == nil && info.Mode().Perm() == 0o700, "%s: %v, %v", path, info.Mode(), err)
	}
	file := musttest.Get(scratch.CreateFile())(t)
	info, err := file.Stat()
	assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info.Mode(), err)
	assert.NoError(t, file.Close())
}

func TestAFolderThatCannotBeUsedIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	musttest.Fail(t, scratch.Use(file), fault.StoreDenied, file)
}
