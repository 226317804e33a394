// Package scratchtest lets tests see temporary files, which have no name.
package scratchtest

import (
	"iter"
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

// WriteFile writes a file that goes with the test, and returns its path.
func WriteFile(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Yield returns a sequence of values without an error.
func Yield[T any](all ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

// Open writes a file and opens it until the test ends. An error must name the file, whatever is wrong with it.
func Open[F interface{ Close() }](t testing.TB, content []byte, open func(path string) (F, error)) (F, error) {
	t.Helper()
	path := WriteFile(t, content)
	file, err := open(path)
	if err == nil {
		t.Cleanup(file.Close)
	} else if !strings.Contains(err.Error(), path) {
		t.Errorf("an error that does not name the file: %v", err)
	}
	return file, err
}
