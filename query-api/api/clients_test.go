package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program returns the path of another project's program, where infra/clients/clients.sh could install it; make
// test-servers does.
func program(t *testing.T, parts ...string) string {
	t.Helper()
	folder := os.Getenv("UNWEAVER_TEST_CLIENTS")
	if folder == "" {
		t.Skip("SKIPPED: UNWEAVER_TEST_CLIENTS names no folder of infra/clients/clients.sh")
	}
	path := filepath.Join(append([]string{folder}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	return path
}

func TestThePythonClientOfOpenAIReadsIt(t *testing.T) {
	python := program(t, "venv", "bin", "python")
	server := httptest.NewServer(serve(t, nil).server.Handler())
	defer server.Close()
	out, err := exec.CommandContext(t.Context(), python, "testdata/openai_client.py", server.URL+"/v1").CombinedOutput()
	require.True(t, err == nil, "%v\n%s", err, out)
	t.Logf("%s", out)
}

func TestTheInspectorReadsTheTools(t *testing.T) {
	inspector := program(t, "node", "node_modules", ".bin", "mcp-inspector")
	server := httptest.NewServer(serve(t, nil).server.Handler())
	defer server.Close()
	inspect := func(args ...string) map[string]any {
		t.Helper()
		command := exec.CommandContext(t.Context(), inspector,
			append([]string{"--cli", server.URL + "/mcp", "--transport", "http"}, args...)...)
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(inspector)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
		var reported strings.Builder
		command.Stderr = &reported
		raw, err := command.Output()
		var out map[string]any
		require.True(t, err == nil && json.Unmarshal(raw, &out) == nil, "%v: %v\n%s\n%s", args, err, raw, reported.String())
		return out
	}
	if tools := inspect("--method", "tools/list", "--strict")["tools"].([]any); len(tools) != 6 {
		t.Errorf("%d tools", len(tools))
	}
	answer := inspect("--method", "tools/call", "--tool-name", "answer", "--tool-arg",
		"query=What is the capital of Norway?", "max_tokens=500")
	if structured := answer["structuredContent"].(map[string]any); !strings.Contains(structured["answer"].(string), "Oslo") {
		t.Errorf("%v", answer)
	}
}
