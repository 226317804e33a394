package programs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// block finds the shell commands of a page: those of "sh" run here, those of "sh no-run" need more than this machine.
var block = regexp.MustCompile("(?ms)^```sh( no-run)?\n(.*?)^```$")

// pagesOfCommands returns the pages whose commands people copy, in an order in which they can run one after another:
// the last one deletes the index.
func pagesOfCommands(t *testing.T) []string {
	guides := musttest.Get(filepath.Glob("../../docs/guides/*.md"))(t)
	last := func(page string) bool { return filepath.Base(page) == "delete.md" }
	slices.SortStableFunc(guides, func(a, b string) int {
		if last(a) == last(b) {
			return 0
		}
		if last(a) {
			return 1
		}
		return -1
	})
	require.True(t, len(guides) >= 8 && last(guides[len(guides)-1]), "%v", guides)
	return append([]string{"../../docs/start.md"}, guides...)
}

// Commands of the first page and of the guides run as they stand, on an index of a few documents.
func TestCommandsOfTheGuidesRun(t *testing.T) {
	i := install(t, "", "# %[1]s%[2]s\nindexes: {}\n")
	at := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(at, "infra/embedded"), 0o700))
	for link, target := range map[string]string{"bin": bin, "infra/embedded/sample": "../embedded/sample"} {
		full := musttest.Get(filepath.Abs(target))(t)
		require.NoError(t, os.Symlink(full, filepath.Join(at, link)))
	}
	i = i.on(filepath.Join(at, "unweaver-data"))
	i.write(filepath.Join(at, "docs/contracts/lease.md"), "# Lease\n\nAda Berg signed the lease on 3 May 2024.\n")
	i.write(filepath.Join(at, "docs/boiler.md"), "# Boiler\n\nTom Wren repaired the boiler of Ada Berg in 2023.\n")
	i.start()
	t.Cleanup(i.kill)
	_, noCurl := exec.LookPath("curl")

	toHere := strings.NewReplacer("http://127.0.0.1:8080", i.http, "curl -s ", "curl -sf ", "curl -N ", "curl -sfN ")
	shell := func(page, text string) {
		text = toHere.Replace(text)
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		command.Dir, command.Env = at, append(slices.Clip(i.env), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s:\n%s\nprinted:\n%s", page, text, out)
	}
	ran := 0
	for n, page := range pagesOfCommands(t) {
		if n == 1 {
			shell(page, "unweaver delete docs --yes\nunweaver index ./docs --index docs --wait")
		}
		raw := musttest.Get(os.ReadFile(page))(t)
		for _, found := range block.FindAllSubmatch(raw, -1) {
			if len(found[1]) > 0 || noCurl != nil && bytes.Contains(found[2], []byte("curl")) {
				continue
			}
			shell(page, string(found[2]))
			ran++
		}
	}
	require.Greater(t, ran, 15, "blocks of commands")
}

var (
	called = regexp.MustCompile(`(?:^|[\s/(])(?:unweaver|run --rm cli)((?: [a-z][a-z-]*)+)([^#|\n]*)`)
	option = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// Every command and flag of every block of shell commands is one of the program.
func TestCommandsOfTheDocsExist(t *testing.T) {
	if bin == "" {
		t.Skip("UNWEAVER_TEST_BIN names no folder of programs: make test sets it")
	}
	helps := map[string]string{}
	help := func(words ...string) string {
		key := strings.Join(words, " ")
		if _, known := helps[key]; !known {
			ask := exec.CommandContext(t.Context(), filepath.Join(bin, "unweaver"), append(slices.Clone(words), "--help")...)
			out, err := ask.CombinedOutput()
			require.NoError(t, err, "unweaver %s: %s", key, out)
			helps[key] = string(out)
		}
		return helps[key]
	}
	seen := 0
	for _, page := range append(pagesOfCommands(t), "../../README.md") {
		raw := musttest.Get(os.ReadFile(page))(t)
		for _, found := range block.FindAllSubmatch(raw, -1) {
			text := strings.ReplaceAll(string(found[2]), "\\\n", " ")
			for _, call := range called.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(call[1])
				if words[0] == "unweaver" { // the user of "sudo -u unweaver unweaver …"
					words = words[1:]
				}
				if len(words) == 0 {
					continue
				}
				command := words[:1]
				require.Regexp(t, `(?m)^  `+words[0]+` `, help(), "%s: unweaver %s", page, words[0])
				if len(words) > 1 && regexp.MustCompile(`(?m)^  `+words[1]+` `).MatchString(help(command...)) {
					command = words[:2]
				}
				for _, flag := range option.FindAllStringSubmatch(call[2], -1) {
					require.Regexp(t, flag[1]+`\b`, help(command...), "%s: unweaver %s", page, strings.Join(command, " "))
				}
				seen++
			}
		}
	}
	require.Greater(t, seen, 60, "commands")
}
