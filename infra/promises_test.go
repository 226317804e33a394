package infra_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// promised finds the promises of docs/invariants.md, marked those of a test's comment, right above the test.
var (
	promised = regexp.MustCompile(`(?m)^\| (\d+) \| `)
	marked   = regexp.MustCompile(`(?m)^// Promises: (\d+(?:, \d+)*)\.\nfunc (?:Test|Fuzz)\w+\(`)
)

func TestEveryPromiseHasATestAndEveryMarkAPromise(t *testing.T) {
	page, err := os.ReadFile("../docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]int{} // of each promise
	for _, found := range promised.FindAllStringSubmatch(string(page), -1) {
		if _, twice := tests[found[1]]; twice {
			t.Errorf("docs/invariants.md has promise %s twice", found[1])
		}
		tests[found[1]] = 0
	}
	if len(tests) < 100 {
		t.Fatalf("docs/invariants.md has %d promises", len(tests))
	}
	files, err := exec.Command("git", "ls-files", "..").Output()
	if err != nil {
		t.Skip("no checkout of git: ", err)
	}
	for file := range strings.FieldsSeq(string(files)) {
		if !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "testkit/") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, and not committed
		}
		marks := marked.FindAllStringSubmatch(string(source), -1)
		if lines := strings.Count(string(source), "\n// Promises: "); lines != len(marks) {
			t.Errorf("%s: %d marks, of which %d stand right above a test", file, lines, len(marks))
		}
		for _, mark := range marks {
			for promise := range strings.SplitSeq(mark[1], ", ") {
				if _, known := tests[promise]; !known {
					t.Errorf("%s: docs/invariants.md has no promise %s", file, promise)
				}
				tests[promise]++
			}
		}
	}
	for promise, count := range tests {
		if count == 0 {
			t.Errorf("no test is marked with promise %s", promise)
		}
	}
}
