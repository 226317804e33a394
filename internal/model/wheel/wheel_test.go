package wheel_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/wheel"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const wheelName = "some_tool-1.0-py3-none-any.whl"

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

func pack(t *testing.T, content []byte) []byte {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	member := musttest.Get(archive.Create("some_tool-1.0.data/scripts/tool"))(t)
	musttest.Get(member.Write(content))(t)
	require.NoError(t, archive.Close())
	return out.Bytes()
}

func orderOf(t *testing.T, content, raw []byte) wheel.Order {
	return wheel.Order{
		What: "a tool", Target: t.TempDir(), Home: "https://files.invalid/ab/" + wheelName, SHA256: sum(raw), Mode: 0o755,
		Files: []wheel.File{{Name: "tool", SHA256: sum(content), Size: int64(len(content))}},
	}
}

// mirror serves an index with credentials, and the wheel beside it; asked counts the pages.
func mirror(t *testing.T, raw []byte) (index string, asked *int) {
	asked = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked++
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hidden-word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/simple/some-tool/":
			_, _ = fmt.Fprintf(w, `<a class="x" href="../../files/other.whl">other.whl</a>
				<a href="../../files/%s#sha256=1">it</a>`, wheelName)
		case "/files/" + wheelName:
			_, _ = w.Write(raw)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://me:hidden-word@", 1) + "/simple", asked
}

func TestTheIndexThatTheMachineNamesIsAsked(t *testing.T) {
	content := []byte("a program")
	raw := pack(t, content)
	for name, configure := range map[string]func(t *testing.T, index string){
		"by the environment": func(t *testing.T, index string) { t.Setenv("PIP_INDEX_URL", index) },
		"by pip's configuration": func(t *testing.T, index string) {
			t.Setenv("PIP_INDEX_URL", "")
			file := filepath.Join(t.TempDir(), "pip.conf")
			text := "[install]\nindex-url = http://nowhere.invalid\n[global]\n# a remark\nindex_url = " + index + "\n"
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			t.Setenv("PIP_CONFIG_FILE", file)
		},
	} {
		index, asked := mirror(t, raw)
		configure(t, index)
		order := orderOf(t, content, raw)
		err := order.Fetch(t.Context())
		require.True(t, err == nil && *asked == 2, "%s: %v after %d requests", name, err, *asked)
		info, err := os.Stat(filepath.Join(order.Target, "tool"))
		assert.True(t, err == nil && info.Mode().Perm() == 0o755, "%s: %v %v", name, info, err)
		status, problem := order.Files[0].CheckState(order.Target, true)
		assert.True(t, status == wheel.Sound, "%s: %v", name, problem)
		order.Home = "https://files.invalid/ab/some_tool-2.0-py3-none-any.whl"
		err = order.Fetch(t.Context())
		assert.True(t, err != nil && strings.Contains(err.Error(), "some_tool-2.0") &&
			!strings.Contains(err.Error(), "hidden-word"), "%s: a wheel that the index has not: %v", name, err)
	}
}

func TestOtherBytesAreRefusedAndNothingIsLeft(t *testing.T) {
	content := []byte("a program")
	raw := pack(t, content)
	index, _ := mirror(t, raw)
	t.Setenv("PIP_INDEX_URL", index)
	for name, change := range map[string]func(*wheel.Order){
		"another wheel":  func(o *wheel.Order) { o.SHA256 = sum(nil) },
		"another file":   func(o *wheel.Order) { o.Files[0].SHA256 = sum(nil) },
		"a longer file":  func(o *wheel.Order) { o.Files[0].Size = 1 },
		"another folder": func(o *wheel.Order) { o.From, o.Files[0].SHA256 = write(t, "tool", content), sum(nil) },
	} {
		order := orderOf(t, content, raw)
		change(&order)
		err := order.Fetch(t.Context())
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), order.Home), "%s: %v", name, err)
		assert.Empty(t, musttest.Get(os.ReadDir(order.Target))(t), name)
	}
}

func TestWhatAKilledFetchLeftIsRemovedUnlessAnotherGoesOn(t *testing.T) {
	content := []byte("a program")
	order := orderOf(t, content, nil)
	order.From = write(t, "tool", content)
	left := filepath.Join(order.Target, ".pulled-1")
	require.NoError(t, os.WriteFile(left, content, 0o600))
	other := musttest.Get(os.Open(order.Target))(t)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_SH))
	require.NoError(t, order.Fetch(t.Context()))
	assert.NoError(t, musttest.Err(os.Stat(left)), "the file of a fetch that goes on")
	_ = other.Close()
	require.NoError(t, order.Fetch(t.Context()))
	files, err := os.ReadDir(order.Target)
	assert.True(t, err == nil && len(files) == 1 && files[0].Name() == "tool", "%v %v", files, err)
}

func write(t *testing.T, name string, content []byte) string {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	return folder
}
