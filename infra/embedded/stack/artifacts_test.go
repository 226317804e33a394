package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
)

func TestASecondStackOverTheSameArtifactsIsRefusedAndToldWhoHasThem(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "artifacts")
	first, err := lockArtifacts(folder, "/data/one")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockArtifacts(folder, "/data/two")
	if !fault.Is(err, fault.DataDirInUse) || !strings.Contains(err.Error(), "/data/one") ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Fatalf("%v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockArtifacts(folder, "/data/two")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
