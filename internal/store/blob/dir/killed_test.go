package dir_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
)

// A child is killed while eight goroutines write: another process reads whole all that the child acknowledged, and
// everything that it lists.
func TestAWriterThatWasKilledLosesNothingItAcknowledged(t *testing.T) {
	if root := os.Getenv("UNWEAVER_TEST_KILLED"); root != "" {
		writeUntilKilled(t, root)
	}
	for _, acknowledged := range []int{1, 40, 400} {
		root := t.TempDir()
		keys := killAfter(t, root, acknowledged)
		store, err := dir.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		for info, err := range store.List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, info.Key)
		}
		for _, key := range keys {
			raw, _, err := blob.Read(t.Context(), store, key)
			if err != nil || string(raw) != strings.Repeat(key, 50) {
				t.Errorf("%s: %d bytes, %v", key, len(raw), err)
			}
		}
	}
}

// writeUntilKilled writes objects and prints the key of each once it is acknowledged.
func writeUntilKilled(t *testing.T, root string) {
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("k/%d/%d", i, n)
				body := []byte(strings.Repeat(key, 50))
				if _, err := blob.Write(t.Context(), store, key, body, blob.Cond{Absent: true}); err != nil {
					t.Error(err)
					return
				}
				fmt.Println("wrote", key)
			}
		})
	}
	all.Wait()
}

// killAfter kills a child that writes once it has acknowledged so many objects, and returns the keys of them.
func killAfter(t *testing.T, root string, acknowledged int) (keys []string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "UNWEAVER_TEST_KILLED="+root)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if key, ok := strings.CutPrefix(lines.Text(), "wrote "); ok {
			keys = append(keys, key)
		}
		if len(keys) == acknowledged {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || len(keys) < acknowledged {
		t.Fatalf("%d were acknowledged, %v", len(keys), err)
	}
	return keys
}
