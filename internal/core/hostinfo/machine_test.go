package hostinfo

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryIsTheContainersWhereThatIsLess(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("this machine reports it in another way")
	}
	const meminfo = "MemFree: 12 kB\nMemTotal:       8388608 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing is given":    {nil, unknown},
		"a machine":           {map[string]string{"proc/meminfo": meminfo}, 8 << 30},
		"a bounded container": {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"no bound":            {map[string]string{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": "max\n"}, 8 << 30},
		"the older layout": {map[string]string{
			"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648",
		}, 2 << 30},
		"an older one without a bound": {map[string]string{
			"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
		}, 8 << 30},
		"nonsense": {map[string]string{"proc/meminfo": "MemTotal: many kB\nMemTotal:\n"}, unknown},
	} {
		root := t.TempDir()
		for path, content := range c.files {
			path = filepath.Join(root, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		assert.Equal(t, c.want, findMemory(root), "%s", name)
	}
	assert.True(t, Memory() > 0, "this machine has none")
}
