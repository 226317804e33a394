package infra_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// promised finds the promises of docs/invariants.md, marked those of a test's comment, right above the test.
var (
	promised = regexp.MustCompile(`(?m)^\* (\d+): `)
	marked   = regexp.MustCompile(`(?m)^// Promises: (\d+(?:, \d+)*)\.\nfunc (?:Test|Fuzz)\w+\(`)
)

func TestEveryPromiseHasATestAndEveryMarkAPromise(t *testing.T) {
	page := musttest.Get(os.ReadFile("../docs/invariants.md"))(t)
	tests := map[string]int{} // of each promise
	for _, found := range promised.FindAllStringSubmatch(string(page), -1) {
		_, twice := tests[found[1]]
		assert.True(t, !twice, "docs/invariants.md has promise %s twice", found[1])
		tests[found[1]] = 0
	}
	require.True(t, len(tests) >= 100, "docs/invariants.md has %d promises", len(tests))
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
		assert.Equal(t, len(marks), strings.Count(string(source), "\n// Promises: "), "%s", file)
		for _, mark := range marks {
			for promise := range strings.SplitSeq(mark[1], ", ") {
				_, known := tests[promise]
				assert.True(t, known, "%s: docs/invariants.md has no promise %s", file, promise)
				tests[promise]++
			}
		}
	}
	for promise, count := range tests {
		assert.True(t, count != 0, "no test is marked with promise %s", promise)
	}
}
