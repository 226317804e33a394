// Package scratchtest lets tests see temporary files, which have no name.
package scratchtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In lets this test's temporary files lie in a folder, and gives what finds those that are open. A path that it gives
// opens the file itself.
func In(t *testing.T, folder string) (open func() []string) {
	t.Helper()
	t.Setenv("TMPDIR", folder)
	return func() []string {
		t.Helper()
		if named, err := os.ReadDir(folder); err != nil || len(named) > 0 {
			t.Fatalf("%d files have a name, %v: they stay after a crash", len(named), err)
		}
		descriptors, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not list open files: ", err)
		}
		var found []string
		for _, descriptor := range descriptors {
			path := filepath.Join("/proc/self/fd", descriptor.Name())
			if target, err := os.Readlink(path); err == nil && strings.HasPrefix(target, folder+"/") {
				found = append(found, path)
			}
		}
		return found
	}
}
