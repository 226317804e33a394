package infra_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// replaced are the services in whose place others run: Temporal's development server behind mutual TLS, and the S3 and
// Milvus of make servers, which know one user and none.
var replaced = []string{"postgres", "temporal-schema", "temporal", "filer", "s3", "buckets", "milvus", "corpus"}

// processes runs services of docker-compose.yml as processes: their commands, variables, users and health checks, with
// paths, host names and the credentials of S3 mapped to this machine.
type processes struct {
	t    *testing.T
	file composeFile
	dir  string
	user *syscall.Credential // nil: the one who runs the tests
	here map[string]string   // what stands in the file, and what it is here
}

func newProcesses(t *testing.T) *processes {
	id := fmt.Sprintf("compose-%012x/", rand.Uint64()>>16)
	p := &processes{t: t, file: readCompose(t), dir: t.TempDir(), user: &syscall.Credential{Uid: 65532, Gid: 65532}}
	require.NoError(t, os.Chmod(filepath.Dir(p.dir), 0o755))
	p.here = map[string]string{
		"/out/unweaver": p.dir + "/bin/unweaver", "query-api:8080": "127.0.0.1:1", // until it starts
		"milvus:19530":   strings.TrimPrefix(os.Getenv("UNWEAVER_TEST_MILVUS"), "milvus://"),
		"http://s3:8333": os.Getenv("UNWEAVER_TEST_S3"), "s3://unweaver/": "s3://unweaver/" + id,
		"s3://corpus/": "s3://corpus/" + id,
	}
	for _, name := range []string{"unweaver-worker", "unweaver-query-api", "unweaver"} {
		p.write("bin/"+name, readFile(t, filepath.Join(os.Getenv("UNWEAVER_TEST_BIN"), name)), 0o755)
		p.here["/"+name] = p.dir + "/bin/" + name
	}
	p.write("bin/temporal", readFile(t, musttest.Get(devserver.Finder{}.Find(t.Context()))(t)), 0o755)
	redis := filepath.Join(os.Getenv("UNWEAVER_TEST_SERVERS"), "redis")
	client, err := exec.LookPath(redis + "/usr/bin/redis-cli")
	if err != nil {
		client = "/usr/bin/redis-cli"
	}
	for _, program := range []string{redis + "/redis-server", p.dir + "/bin/unweaver"} {
		look := exec.CommandContext(t.Context(), program, "--version")
		if out, err := p.output(look, 1); err != nil && p.user != nil {
			p.user = nil
			t.Run("as user 65532", func(t *testing.T) { t.Skipf("NOT: as who runs this: %s: %v %s", program, err, out) })
		}
	}
	port := musttest.FreePort(t)
	p.here["redis:6379"] = fmt.Sprintf("127.0.0.1:%d", port)
	script := "#!/bin/sh\nexport LD_LIBRARY_PATH=$(echo " + redis + "/usr/lib/*-linux-gnu)\nexec %s %d \"$@\"\n"
	p.write("bin/redis-server", fmt.Sprintf(script, redis+"/redis-server --bind 127.0.0.1 --port", port), 0o755)
	p.write("bin/redis-cli", fmt.Sprintf(script, client+" -p", port), 0o755)
	p.start("redis")
	return p
}

// output runs a command as the services' user to its end, which it brings about after minutes.
func (p *processes) output(cmd *exec.Cmd, minutes time.Duration) (string, error) {
	var out bytes.Buffer
	cmd.SysProcAttr, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.attributes(), &out, &out, time.Second
	err := cmd.Start()
	if err == nil {
		defer time.AfterFunc(minutes*time.Minute, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }).Stop()
		err = cmd.Wait()
	}
	return out.String(), err
}

func (p *processes) attributes() *syscall.SysProcAttr {
	attributes := devserver.ChildAttributes()
	attributes.Credential = p.user
	return attributes
}

// folder makes a folder of the services' user.
func (p *processes) folder(name string) string {
	path := filepath.Join(p.dir, name)
	require.NoError(p.t, os.MkdirAll(path, 0o755))
	if p.user != nil {
		require.NoError(p.t, os.Chown(path, int(p.user.Uid), int(p.user.Gid)))
	}
	return path
}

func (p *processes) write(name, text string, mode os.FileMode) {
	require.NoError(p.t, os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), mode))
}

// place makes what a service mounts, and returns what maps its texts to this machine.
func (p *processes) place(name string) *strings.Replacer {
	places, files := maps.Clone(p.here), map[string]string{}
	for _, mount := range slices.Concat(p.file.Services[name].Volumes, p.file.Services[name].Tmpfs) {
		source, target, _ := strings.Cut(mount, ":")
		target, _, _ = strings.Cut(target, ":")
		switch source[0] {
		case '/':
			places[source] = p.folder(name + source)
		case '.':
			files[source], places[target] = name+target, filepath.Join(p.dir, name, target)
		default:
			places[target] = p.folder("volumes/" + source)
		}
	}
	var pairs []string // the longest counts
	for _, place := range slices.SortedFunc(maps.Keys(places), func(a, b string) int { return len(b) - len(a) }) {
		pairs = append(pairs, place, places[place])
	}
	replacer := strings.NewReplacer(pairs...)
	for source, file := range files {
		text := replacer.Replace(readFile(p.t, filepath.Join("..", source)))
		if old, _ := os.ReadFile(filepath.Join(p.dir, file)); string(old) != text { // a service may just read it
			p.write(file, text, 0o644)
		}
	}
	return replacer
}

var (
	required   = regexp.MustCompile(`\$\{([A-Z0-9_]+):\?[^}]*\}`)
	optional   = regexp.MustCompile(`\$\{[A-Z0-9_]+:-\}`)
	imageEnv   = regexp.MustCompile(`(?m)^ENV (UNWEAVER_CONFIG=.*)$`)
	entryPoint = `(?s) AS %s\n.*?ENTRYPOINT \["([^"]+)"\]`
)

// command returns a command in the place of a service; without arguments it is the service's.
func (p *processes) command(name string, args ...string) *exec.Cmd {
	s, here, env := p.file.Services[name], p.place(name), map[string]string{}
	if args = slices.Clone(args); len(args) == 0 {
		args = slices.Concat(s.Entrypoint, s.Command)
	}
	if s.Build != nil {
		dockerfile := readFile(p.t, "images/Dockerfile")
		entry := regexp.MustCompile(fmt.Sprintf(entryPoint, s.Build.Target)).FindStringSubmatch(dockerfile)[1]
		if len(args) == 0 || args[0] != entry {
			args = slices.Insert(args, 0, entry)
		}
		for set := range strings.FieldsSeq(imageEnv.FindStringSubmatch(dockerfile)[1]) {
			key, value, _ := strings.Cut(set, "=")
			if strings.Contains(dockerfile, "FROM base AS "+s.Build.Target) {
				env[key] = here.Replace(value)
			}
		}
	}
	for key, value := range s.Environment {
		env[key] = here.Replace(optional.ReplaceAllString(required.ReplaceAllString(value, password("$1")), ""))
		if strings.HasPrefix(key, "AWS_") { // one user serves all
			env[key] = os.Getenv(key)
		}
	}
	for at := range args {
		args[at] = here.Replace(strings.ReplaceAll(args[at], "$$", "$"))
	}
	cmd := exec.CommandContext(p.t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = p.dir, []string{"PATH=" + p.dir + "/bin:" + os.Getenv("PATH")}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.SysProcAttr = p.attributes()
	return cmd
}

// finish runs a command of a service to its end, and returns what it printed.
func (p *processes) finish(name string, args ...string) string {
	p.t.Helper()
	out, err := p.output(p.command(name, args...), 5)
	require.NoError(p.t, err, "%s %v: %s", name, args, out)
	return out
}

// start runs a service until the test ends, and waits until its health check is green.
func (p *processes) start(name string) *exec.Cmd {
	p.t.Helper()
	cmd, log, probed := p.command(name), &bytes.Buffer{}, ""
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(p.t, cmd.Start())
	p.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("%s: %.3000s\nits health check: %s", name, log, probed)
		}
	})
	test := p.file.Services[name].Healthcheck.Test
	if test[0] == "CMD-SHELL" {
		test = []string{"CMD", "/bin/sh", "-c", test[1]}
	}
	musttest.Reach(p.t, "the health check of "+name, func() bool {
		var err error
		probed, err = p.output(p.command(name, test[1:]...), 1)
		return err == nil
	})
	return cmd
}

// startEngine runs Temporal's development server behind the certificates that the service temporal has.
func (p *processes) startEngine() {
	port, volume := musttest.FreePort(p.t), filepath.Join(p.dir, "volumes", "certs-server")
	engine := exec.CommandContext(p.t.Context(), p.dir+"/bin/temporal",
		devserver.Arguments(filepath.Join(p.t.TempDir(), "engine.db"), port)...)
	engine.SysProcAttr = devserver.ChildAttributes()
	require.NoError(p.t, engine.Start())
	p.t.Cleanup(func() { _ = engine.Process.Kill(); _ = engine.Wait() })
	pair := musttest.Get(tls.LoadX509KeyPair(volume+"/server.pem", volume+"/server-key.pem"))(p.t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(readFile(p.t, volume+"/clients.pem")))
	front := musttest.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	}))(p.t)
	p.t.Cleanup(func() { _ = front.Close() })
	p.here["temporal:7233"] = fmt.Sprintf("localhost:%d", front.Addr().(*net.TCPAddr).Port)
	go func() {
		for from, err := front.Accept(); err == nil; from, err = front.Accept() {
			to, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil { // it has not begun to listen
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
}

// TestTheComposeFileRunsAsProcesses follows docs/guides/cluster.md, Install with Compose, without a container engine.
func TestTheComposeFileRunsAsProcesses(t *testing.T) {
	for _, v := range []string{"UNWEAVER_TEST_BIN", "UNWEAVER_TEST_SERVERS", "UNWEAVER_TEST_S3", "UNWEAVER_TEST_MILVUS"} {
		if os.Getenv(v) == "" {
			t.Skip(v + " is not set: make test-servers sets it")
		}
	}
	p, ran := newProcesses(t), []string{"certs", "temporal-namespace", "redis", "worker", "query-api", "cli"}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(p.file.Services)), slices.Concat(ran, replaced))
	t.Logf("NOT RUN AS THEY ARE: %v", replaced)
	p.finish("certs")
	p.startEngine()
	p.finish("temporal-namespace")
	p.finish("cli", "doctor", "--without-workers") // as the chart does, before any worker
	servers := []*exec.Cmd{p.start("worker")}
	port := fmt.Sprint(musttest.FreePort(t))
	p.here["query-api:8080"], p.here["0.0.0.0:8080"] = "127.0.0.1:"+port, "0.0.0.0:"+port
	servers = append(servers, p.start("query-api"))
	p.finish("cli", "doctor")

	cfg := musttest.Get(config.Load(config.Source{
		Path: p.dir + "/cli/etc/unweaver/unweaver.yaml", Env: p.command("cli", "ls").Env,
	}))(t)
	stores := musttest.Get(app.Open(t.Context(), cfg.Stores))(t)
	defer func() { _ = stores.Close() }()
	corpus := musttest.Get(stores.OpenCorpus(t.Context(), cfg.Indexes["docs"].Corpus))(t)
	defer func() {
		out, err := p.output(p.command("cli", "delete", "docs", "--yes"), 5) // with its collections
		assert.NoError(t, err, out)
		for _, store := range []blob.Store{corpus, stores.Artifacts} {
			for object := range store.List(t.Context(), "", "") {
				assert.NoError(t, store.Delete(t.Context(), object.Key))
			}
		}
	}()
	musttest.Get(blob.Write(t.Context(), corpus, "lease.md", []byte("Ada Berg signed the lease."), blob.Cond{}))(t)
	p.finish("cli", "index", "s3://corpus/docs/", "--index", "docs", "--wait")
	key := regexp.MustCompile(`uwk_\w+`).FindString(p.finish("cli", "keys", "create", "--index", "docs"))
	ask := func(key string) (string, error) {
		query := p.command("cli", "query", "docs", "Who signed the lease?", "--json")
		query.Env = append(query.Env, "UNWEAVER_API_KEY="+key) // the last one counts
		return p.output(query, 1)
	}
	musttest.Reach(t, "an answer", func() bool {
		out, err := ask(key)
		return err == nil && strings.Contains(out, "Ada Berg")
	})
	out, err := ask("uwk_other")
	assert.True(t, err != nil && strings.Contains(out, "key"), "without a key of the installation: %s", out)
	for _, cmd := range servers {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		assert.NoError(t, cmd.Wait(), "%s after SIGTERM", cmd.Path)
	}
}
