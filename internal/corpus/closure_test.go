package corpus_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/unweaver/unweaver"

// deps lists what a package reaches.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

func forbid(t *testing.T, pkg string, bad ...string) {
	t.Helper()
	for _, d := range deps(t, pkg) {
		for _, b := range bad {
			if d == b || strings.HasPrefix(d, b+"/") {
				t.Errorf("%s reaches %s", pkg, d)
			}
		}
	}
}

// adapters are wired in one place.
var adapters = []string{
	module + "/internal/store/blob/dir",
	module + "/internal/store/records/bolt", module + "/internal/store/records/redis",
	module + "/internal/store/coordination/bolt", module + "/internal/store/coordination/redis",
	module + "/internal/store/redisconn", module + "/internal/store/blob/s3", module + "/internal/store/vectors/milvus",
	module + "/internal/store/vectors/files",
	module + "/internal/model/openai",
}

const wiring = module + "/internal/store/wiring"

// technologies that only adapters and mains may reach.
var technologies = []string{
	"go.etcd.io",
	"github.com/openai",
	"github.com/parquet-go",
	"github.com/redis",
	"github.com/aws",
	"github.com/milvus-io",
	"github.com/klauspost",
}

func TestWorkflowsReachNoTechnology(t *testing.T) {
	ours := []string{wiring, module + "/internal", module + "/activities"}
	forbid(t, module+"/workflows", slices.Concat(technologies, adapters, ours)...)
}

func TestCorpusImportsTheStandardLibraryOnly(t *testing.T) {
	for _, d := range deps(t, module+"/internal/corpus") {
		if strings.Contains(strings.SplitN(d, "/", 2)[0], ".") && d != module+"/internal/corpus" {
			t.Errorf("corpus reaches %s", d)
		}
	}
}

func TestQueryAPIReachesNoEngine(t *testing.T) {
	forbid(t, module+"/query-api", "go.temporal.io", module+"/workflows", module+"/activities")
}

func TestStagesNeverImportEachOther(t *testing.T) {
	out, err := exec.Command("go", "list", module+"/internal/stage/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Fields(string(out))
	if len(stages) < 11 {
		t.Fatalf("only %d stages found", len(stages))
	}
	for _, s := range stages {
		for _, d := range deps(t, s) {
			if d != s && strings.HasPrefix(d, module+"/internal/stage/") {
				t.Errorf("%s reaches %s", s, d)
			}
		}
		forbid(t, s, append([]string{"go.temporal.io"}, adapters...)...)
	}
}

func TestAdaptersAreWiredOnlyBelowTheMains(t *testing.T) {
	for _, p := range []string{"/activities", "/internal/retrieve", "/query-api/api", "/internal/ledger"} {
		forbid(t, module+p, append([]string{wiring}, adapters...)...)
	}
}
