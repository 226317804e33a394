package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestMain(m *testing.M) {
	misbehave()
	sandbox.RunChild()
	os.Exit(m.Run())
}

// limits returns limits that are small enough that a bomb is known for one soon, with time for a busy machine.
func limits() document.Limits {
	out := document.DefaultLimits()
	out.Time, out.Memory, out.Text = 10*time.Minute, 192<<20, 4<<20
	return out
}

func newPool(t testing.TB, places int, limits document.Limits) *sandbox.Pool {
	t.Helper()
	pool := must(sandbox.New(places, limits))
	t.Cleanup(pool.Close)
	return pool
}

// parseDocument reads a document to its end.
func parseDocument(ctx context.Context, parser document.Parser, object, content string) (document.Doc, string, error) {
	kind, _, _ := document.TypeOf(object)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	doc, err := parser.Parse(ctx, strings.NewReader(content), kind, object)
	if err != nil {
		return doc, "", err
	}
	raw, err := io.ReadAll(doc.Text)
	return doc, string(raw), err
}

// readsGood fails a test unless a pool reads a document of the type of the name.
func readsGood(t *testing.T, pool *sandbox.Pool, object string) {
	t.Helper()
	content := map[string]string{".html": "<p>good</p>", ".json": `{"text":"good"}`, ".pdf": documenttest.PDF("good")}
	_, text, err := parseDocument(t.Context(), pool, object, content[filepath.Ext(object)])
	assert.True(t, err == nil && strings.Contains(text, "good"), "%s: %q, %v", object, text, err)
}

func TestADocumentWithTooMuchMetadataIsTooLarge(t *testing.T) {
	content := `{"text":"words","` + strings.Repeat("k", 17<<20) + `":"value"}`
	_, _, err := parseDocument(t.Context(), newPool(t, 1, document.DefaultLimits()), "long.json", content)
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "long.json"), "%.300v", err)
}

func TestEachPillIsNamedAndTheNextDocumentIsParsed(t *testing.T) {
	pool := newPool(t, 1, limits())
	for name, content := range documenttest.Deadly() {
		start := time.Now()
		_, _, err := parseDocument(t.Context(), pool, name, content)
		t.Logf("%-16s %6d bytes %6.2f s: %v", name, len(content), time.Since(start).Seconds(), err)
		known := fault.As(err)
		assert.True(t, known != nil && known.Kind == fault.Content && strings.Contains(err.Error(), name) && known.Hint != "",
			"%s: %v", name, err)
		readsGood(t, pool, "good.pdf")
	}
}

func TestAChildThatIsNotWellIsAnErrorOfTheDocumentAndGone(t *testing.T) {
	for _, how := range []string{"one that writes garbage", "one that sends other bytes than text", "one that never ends",
		"one that never ends its head", "one that invents faults", "one that ends without a word",
		"one that stops in the middle", "one that closes its input", "one that ignores signals"} {
		t.Run(how, func(t *testing.T) {
			small, want := limits(), fault.ParseCrashed
			if how == "one that ignores signals" { // it sleeps, and takes no time of a processor
				small.Time, want = 500*time.Millisecond, fault.Quarantined
			}
			pool := newPool(t, 1, small)
			pool.Args("x", behaviour+how)
			large := strings.Repeat("<p>text</p>", 1<<16) // more than a pipe holds
			_, _, err := parseDocument(t.Context(), pool, "a.html", large)
			assert.True(t, fault.Is(err, want) && strings.Contains(err.Error(), "a.html"), "%v, not %s", err, want)
			pids := pool.PIDs()
			assert.True(t, len(pids) <= 0 || how == "one that invents faults", "it is still there: %v", pids)
		})
	}
}

func TestAChildHasNoEnvironmentNoFilesButItsPipesAndLimits(t *testing.T) {
	t.Setenv("UNWEAVER_SECRET", "s3cr3t")
	secret := must(os.Open(os.Args[0]))
	defer func() { _ = secret.Close() }()
	inherited, err := syscall.Dup(int(secret.Fd())) // without the mark that keeps it from a child
	require.NoError(t, err)
	defer func() { _ = syscall.Close(inherited) }()
	pool := newPool(t, 1, limits())
	readsGood(t, pool, "a.html")
	pid := pool.PIDs()[0]
	proc := fmt.Sprintf("/proc/%d/", pid)
	env, err := os.ReadFile(proc + "environ")
	if err != nil {
		t.Skip("no /proc")
	}
	assert.True(t, len(env) <= 0, "environment: %q", env)
	names, _ := os.ReadDir(proc + "fd")
	for _, name := range names {
		target, _ := os.Readlink(proc + "fd/" + name.Name())
		if fd := name.Name(); (len(fd) > 1 || fd > "2") && !strings.HasPrefix(target, "anon_inode:") &&
			!strings.HasPrefix(target, "/sys/fs/cgroup/") { // these are the runtime's
			t.Errorf("file %s: %s", fd, target)
		}
	}
	group, err := syscall.Getpgid(pid)
	assert.True(t, group == pid, "its group is %d, %v", group, err)
	set, _ := os.ReadFile(proc + "limits")
	data := `335544320 +335544320`
	if !sandbox.BoundsMemory { // the race detector has no bound
		data = `unlimited +unlimited`
	}
	for _, want := range []string{
		`Max data size +` + data,
		`Max file size +0 +0`, `Max core file size +0 +0`, `Max open files +16 +16`,
		`Max cpu time +12[0-9]{2} +unlimited`, // twice the time of a document, and what was used
	} {
		assert.True(t, regexp.MustCompile(want).Match(set), "%s is not in\n%s", want, set)
	}
	status, _ := os.ReadFile(proc + "status")
	assert.Contains(t, string(status), "NoNewPrivs:\t1\n", "it may get privileges")
	assert.Contains(t, string(status), "Seccomp:\t2", "no filter")
}

// gone reports whether there is no process of this number any more, not even a zombie.
func gone(pid int) bool {
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
	}
	return false
}

func files(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(names)
}

func TestClosingLeavesNoProcessAndNoFile(t *testing.T) {
	pool, err := sandbox.New(2, limits())
	require.NoError(t, err)
	_, _, _ = parseDocument(t.Context(), pool, "a.html", "<p>warm</p>") // what a first one opens once is not counted
	before := files(t)
	pool.Close()
	if pool, err = sandbox.New(2, limits()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"xrefsize.pdf", "selfstream.pdf"} {
		_, _, _ = parseDocument(t.Context(), pool, name, documenttest.Deadly()[name])
	}
	readsGood(t, pool, "a.html")
	pids := pool.PIDs()
	assert.True(t, len(pids) == 1, "children: %v", pids)
	pool.Close()
	for _, pid := range pids {
		assert.True(t, gone(pid), "process %d is left", pid)
	}
	after := files(t)
	assert.True(t, after < before, "%d files are open, %d with one child", after, before)
	_, _, err = parseDocument(t.Context(), pool, "a.html", "<p>x</p>")
	assert.True(t, fault.Is(err, fault.ParserDown), "a closed pool: %v", err)
}

func TestADocumentThatIsGivenUpFreesItsPlaceAtOnce(t *testing.T) {
	slow := limits()
	slow.Time, slow.Memory = 10*time.Minute, 4<<30 // a fast machine takes 192 MiB in a quarter of a second
	pool := newPool(t, 1, slow)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("a person stopped it")
	time.AfterFunc(200*time.Millisecond, func() { cancel(stopped) })
	start := time.Now()
	_, _, err := parseDocument(ctx, pool, "hang.pdf", documenttest.Tireless())
	assert.True(t, errors.Is(err, stopped), "it ended with %v", err)
	readsGood(t, pool, "a.html")
	took := time.Since(start)
	assert.True(t, took <= 2*time.Minute, "the next document waited %v", took)
}

func TestATextThatIsNotReadToItsEndFreesItsPlace(t *testing.T) {
	pool := newPool(t, 1, limits())
	ctx, cancel := context.WithCancel(t.Context())
	long := "<p>" + strings.Repeat("many words ", 50_000) + "</p>"
	doc := must(pool.Parse(ctx, strings.NewReader(long), document.HTML, "a.html"))
	must(doc.Text.Read(make([]byte, 10)))
	cancel()
	readsGood(t, pool, "b.html")
}

func TestAParentThatIsKilledLeavesNoChild(t *testing.T) {
	cmd := exec.Command(os.Args[0], behaviour+"a parent")
	out := must(cmd.StdoutPipe())
	require.NoError(t, cmd.Start())
	var pid int
	_, err := fmt.Fscan(out, &pid)
	time.Sleep(200 * time.Millisecond) // it parses by now
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	require.True(t, err == nil && pid != 0, "no child: %v", err)
	if !gone(pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Errorf("process %d outlived its parent", pid)
	}
}

func TestADocumentIsWhatItIsInThisProcess(t *testing.T) {
	pool := newPool(t, 1, limits())
	for name, content := range map[string]string{
		"a.html": "<title>A title</title><h1>Häfen</h1><p>" + strings.Repeat("Zürich über ", 20_000) + "</p>",
		"a.json": `{"title": "T", "text": "x", "year": 1999}`, "b.json": `[1, {"a": null}]`, "bad.json": `{`,
		"a.pdf": documenttest.PDF("Salt and ships"), "bad.pdf": "%PDF-1.4", "bad.docx": "PK", "empty.html": "",
	} {
		wantDoc, wantText, wantErr := parseDocument(t.Context(), documenttest.Here{Limits: limits()}, name, content)
		doc, text, err := parseDocument(t.Context(), pool, name, content)
		assert.Equal(t, wantDoc.Title, doc.Title, name)
		assert.Equal(t, wantDoc.Meta, doc.Meta, name)
		assert.True(t, text == wantText, "%s: %d bytes, in this process %d", name, len(text), len(wantText))
		assert.Equal(t, fmt.Sprint(fault.CodeOf(wantErr), wantErr), fmt.Sprint(fault.CodeOf(err), err), name)
	}
}

func TestAChildGoesAfterManyDocuments(t *testing.T) {
	pool := newPool(t, 1, limits())
	seen := map[int]bool{}
	for range sandbox.Lifetime + 1 {
		readsGood(t, pool, "a.json")
		for _, pid := range pool.PIDs() {
			seen[pid] = true
		}
	}
	assert.True(t, len(seen) == 2, "%d children", len(seen))
}

func TestASourceThatBreaksIsNoFaultOfTheChild(t *testing.T) {
	pool := newPool(t, 1, limits())
	broken := io.MultiReader(strings.NewReader("<p>"), iotest.ErrReader(errors.New("torn")))
	_, err := pool.Parse(t.Context(), broken, document.HTML, "a.html")
	assert.True(t, fault.Is(err, fault.Unreadable) && strings.Contains(err.Error(), "torn") && len(pool.PIDs()) == 1,
		"%v, children %v", err, pool.PIDs())
}

// Children that start at once with an empty folder compile once, and leave the code to this user alone.
func TestCompiledCodeIsKeptForTheNextChild(t *testing.T) {
	base := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", base)
	folder := filepath.Join(base, "unweaver", "wasm")
	require.NoError(t, os.MkdirAll(folder, 0o755)) // it is to be mended
	pool := newPool(t, 3, limits())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { readsGood(t, pool, "a.pdf") })
	}
	all.Wait()
	info, err := os.Stat(folder)
	assert.True(t, err == nil && info.Mode().Perm() == 0o700, "%v, %v", info, err)
	kept, _ := filepath.Glob(filepath.Join(folder, "wazero-*", "*"))
	require.True(t, len(kept) == 1, "kept: %v", kept)
	whole := must(os.Stat(kept[0]))
	require.NoError(t, os.Truncate(kept[0], whole.Size()/2)) // as a loss of power may leave it
	again := newPool(t, 1, limits())
	readsGood(t, again, "a.pdf")
	now, err := os.Stat(kept[0])
	assert.True(t, err == nil && now.Size() == whole.Size(), "%v, %v: it is not mended", now, err)
}

// Where no folder can be used, children compile for themselves.
func TestWithoutAFolderForCompiledCodeAChildCompiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_CACHE_HOME", file)
	t.Setenv("TMPDIR", file)
	pool := newPool(t, 1, limits())
	for range 2 { // the second in the same child
		readsGood(t, pool, "a.pdf")
	}
	pids := pool.PIDs()
	assert.True(t, len(pids) == 1, "children: %v", pids)
	_, _, err := parseDocument(t.Context(), pool, "forms.pdf", documenttest.Deadly()["forms.pdf"])
	assert.True(t, err != nil && strings.Contains(err.Error(), "memory"), "a document that takes too much: %v", err)
}

// A child that reads no PDF compiles nothing; one that does reads everything.
func TestAChildForPDFsTakesThePlaceOfAnother(t *testing.T) {
	pool := newPool(t, 1, limits())
	seen := map[int]bool{}
	for _, name := range []string{"a.html", "a.pdf", "b.html", "b.pdf"} {
		readsGood(t, pool, name)
		pids := pool.PIDs()
		assert.True(t, len(pids) == 1, "children: %v", pids)
		seen[pids[0]] = true
	}
	assert.True(t, len(seen) == 2, "%d children", len(seen))
}
