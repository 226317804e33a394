package api_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// schemathesisConfig lets requests reach the sample, and says which refusals of a well-formed request are no fault:
// what is asked for may not be there (404), or was collected (410), and some rules are of two fields together (422).
// The form of OpenAI and JSON-RPC say 400 for what breaks such a rule.
const schemathesisConfig = `
[parameters]
"path.index" = "sample"

[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "408", "410", "413", "415", "421", "422", "429"]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "304", "404", "410", "422"]

[[operations]]
include-name = ["POST /v1/chat/completions", "POST /v1/responses", "POST /mcp"]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "410", "422"]
`

// TestSchemathesisFindsNothing has requests made from the description, good ones and bad ones, and checks every answer
// against it. UNWEAVER_TEST_SCHEMATHESIS is the program (make test-servers installs it into .tools);
// UNWEAVER_TEST_SCHEMATHESIS_SECONDS bounds it, by default to a minute; UNWEAVER_TEST_SCHEMATHESIS_SEED has it make
// other requests than those of seed 1.
// Promises: 102.
func TestSchemathesisFindsNothing(t *testing.T) {
	program := os.Getenv("UNWEAVER_TEST_SCHEMATHESIS")
	if program == "" {
		t.Skip("UNWEAVER_TEST_SCHEMATHESIS is not set: make test-servers sets it")
	}
	seconds := os.Getenv("UNWEAVER_TEST_SCHEMATHESIS_SECONDS")
	if seconds == "" {
		seconds = "60"
	}
	seed := cmp.Or(os.Getenv("UNWEAVER_TEST_SCHEMATHESIS_SEED"), "1")
	f := serve(t, nil)
	f.ask(fram)
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram)["generation"] == "g2" })
	address := "http://" + f.listening()
	folder := t.TempDir()
	config := filepath.Join(folder, "schemathesis.toml")
	require.NoError(t, os.WriteFile(config, []byte(schemathesisConfig), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--config-file", config, "run", address+"/openapi.json",
		"--no-color", "--seed", seed, "--max-time", seconds, "--checks", "all", "--exclude-checks", "use_after_free",
		"--phases", "examples,coverage,fuzzing,stateful",
		"--generation-database", "none", "--warnings", "off", "--continue-on-failure", "--output-truncate", "true")
	command.Dir = folder
	command.Env = append(os.Environ(), "HYPOTHESIS_STORAGE_DIRECTORY="+folder, "SCHEMATHESIS_HOOKS=")
	out, err := command.CombinedOutput()
	text := string(out)
	require.True(t, err == nil, "%v\n%s", err, text)
	assert.True(t, strings.Contains(text, "Operations:") && !strings.Contains(text, "Failures:"),
		"it did not run as expected:\n%s", text)
	t.Log(text)
}
