// Package infra_test checks what docker compose cannot know of docker-compose.yml: who has which rights, secrets and
// networks, and that images are pinned. `make compose-check` runs it.
package infra_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/store/records"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

type service struct {
	Image, User              string
	Entrypoint, Command      []string
	Environment              map[string]string
	Healthcheck              *struct{ Test []string }
	Build                    *struct{ Target string }
	Ports, Volumes, Networks []string
	NetworkMode              string   `yaml:"network_mode"`
	Restart                  string   `yaml:"restart"`
	CapDrop                  []string `yaml:"cap_drop"`
	CapAdd                   []string `yaml:"cap_add"`
	SecurityOpt              []string `yaml:"security_opt"`
	Privileged               bool
	ReadOnly                 bool `yaml:"read_only"`
	Tmpfs                    []string
	MemLimit                 string `yaml:"mem_limit"`
	PidsLimit                int    `yaml:"pids_limit"`
	CPUs                     float64
}

type composeFile struct {
	Services map[string]service
	Networks map[string]struct{ Internal bool }
	text     string
}

func readFile(t *testing.T, path string) string { return string(musttest.Get(os.ReadFile(path))(t)) }

func readCompose(t *testing.T) composeFile {
	file := composeFile{text: readFile(t, "../docker-compose.yml")}
	err := yaml.Unmarshal([]byte(file.text), &file)
	require.True(t, err == nil && len(file.Services) >= 8, "%d services: %v", len(file.Services), err)
	return file
}

// Promises: 116.
func TestServicesHaveTheRightsTheyNeed(t *testing.T) {
	file, memory := readCompose(t), regexp.MustCompile(`^\d+[mg]$`)
	for name, s := range file.Services {
		assert.False(t, !memory.MatchString(s.MemLimit) || s.PidsLimit <= 0 || s.CPUs <= 0 || s.CPUs > 2,
			"%s has the limits mem_limit %q, pids_limit %d, cpus %v", name, s.MemLimit, s.PidsLimit, s.CPUs)
		assert.True(t, !s.Privileged && len(s.CapAdd) == 0 && slices.Equal(s.CapDrop, []string{"ALL"}) &&
			slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "%s keeps rights: drop %v, add %v, %v", name, s.CapDrop,
			s.CapAdd, s.SecurityOpt)
		// Milvus writes beside its volume, as root. Images of ours and of Temporal's tools name a user.
		named := s.User != "" || s.Build != nil || strings.HasPrefix(s.Image, "temporalio/admin-tools:")
		assert.True(t, name == "milvus" || s.ReadOnly && named && s.User != "root" && !strings.HasPrefix(s.User, "0"),
			"%s runs as %q with a root that is read-only: %v", name, s.User, s.ReadOnly)
		assert.True(t, s.Healthcheck != nil || s.Restart == "no", "%s has no health check", name)
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			assert.True(t, source[0] != '.' || strings.HasSuffix(target, ":ro"), "%s may write to %s of the host", name, source)
		}
		for _, port := range s.Ports {
			assert.True(t, name == "query-api" && strings.HasPrefix(port, "127.0.0.1:"),
				"%s publishes %s: query-api alone is published, on loopback", name, port)
		}
		assert.True(t, len(s.Networks) != 0 || s.NetworkMode == "none",
			"%s is on the default network, which reaches every service", name)
		ours := slices.Contains([]string{"worker", "query-api", "cli"}, name)
		for _, network := range s.Networks {
			if declared, ok := file.Networks[network]; !ok || !declared.Internal && !ours {
				t.Errorf("%s is on %s, which is not declared or leads outside", name, network)
			}
		}
		assert.True(t, !ours || slices.Contains(s.Volumes, "/cache") && len(s.Tmpfs) == 0,
			"%s keeps temporary files in memory: volumes %v, tmpfs %v", name, s.Volumes, s.Tmpfs)
		for _, mount := range s.Tmpfs {
			assert.Contains(t, mount, "size=", "%s: tmpfs", name)
		}
	}
	for to, from := range map[string][]string{
		"postgres": {"temporal", "temporal-schema"},
		"temporal": {"postgres", "temporal-schema", "temporal-namespace", "worker", "cli"}, "filer": {"s3", "buckets"},
		"s3": {"filer", "buckets", "milvus", "worker", "query-api", "cli", "corpus"}, "redis": {"worker", "query-api", "cli"},
		"milvus": {"s3", "worker", "query-api", "cli"}, "query-api": {"s3", "redis", "milvus", "worker", "cli"},
	} {
		for name, s := range file.Services {
			reaches := slices.ContainsFunc(s.Networks, func(network string) bool {
				return slices.Contains(file.Services[to].Networks, network)
			})
			assert.True(t, name == to || reaches == slices.Contains(from, name), "%s reaches %s: %v", name, to, reaches)
		}
	}
}

func TestSecretsAreRequiredAndReachTheirServiceAlone(t *testing.T) {
	file, secret := readCompose(t), regexp.MustCompile(`(?i)(password|secret|pwd|token)`)
	required := regexp.MustCompile(`\$\{([A-Z0-9_]+):\?`)
	reference, given := regexp.MustCompile(`\$\{[^}]*\}`), map[string][]string{}
	for name, s := range file.Services {
		var environment []string
		for variable, value := range s.Environment {
			assert.True(t, !secret.MatchString(variable) || required.MatchString(value),
				"%s: %s is not required from the environment: %q", name, variable, value)
			for _, m := range required.FindAllStringSubmatch(value, -1) {
				given[m[1]] = append(given[m[1]], name)
			}
			environment = append(environment, variable+"="+reference.ReplaceAllString(value, "made-up-secret"))
		}
		assert.False(t, required.MatchString(strings.Join(slices.Concat(s.Command, s.Entrypoint), " ")),
			"%s has a secret among its arguments, where every process of the host sees it", name)
		if s.Build == nil || name == "certs" {
			continue
		}
		cfg, err := config.Load(config.Source{Path: "unweaver.cluster.yaml", Env: environment})
		if err != nil {
			t.Errorf("the configuration of %s: %v", name, err)
		} else if err := cfg.Stores.NoPaths(name); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string][]string{
		"POSTGRES_PASSWORD": {"postgres", "temporal", "temporal-schema"}, "REDIS_WORKER_PASSWORD": {"redis", "worker"},
		"REDIS_QUERY_API_PASSWORD": {"query-api", "redis"}, "REDIS_CLI_PASSWORD": {"cli", "redis"},
		"S3_WORKER_SECRET": {"s3", "worker"}, "S3_QUERY_API_SECRET": {"query-api", "s3"}, "S3_CLI_SECRET": {"cli", "s3"},
		"S3_MILVUS_SECRET": {"milvus", "s3"}, "S3_CORPUS_SECRET": {"corpus", "s3"},
		"MILVUS_ROOT_PASSWORD": {"cli", "milvus", "query-api", "worker"},
	} {
		slices.Sort(given[name])
		assert.True(t, slices.Equal(given[name], want), "%s is given to %v, want %v", name, given[name], want)
		assert.True(t, strings.Contains(readFile(t, "env.example"), name+"=\n"),
			"%s is not in infra/env.example, or has a value there", name)
		delete(given, name)
	}
	assert.True(t, len(given) == 0, "other secrets: %v", given)
	assert.Empty(t, regexp.MustCompile(`\$\{[A-Z0-9_]+:?-[^}]+\}`).FindString(file.text))
	for name, variables := range map[string][]string{
		"milvus":   {"COMMON_SECURITY_AUTHORIZATIONENABLED"},
		"temporal": {"TEMPORAL_TLS_REQUIRE_CLIENT_AUTH", "TEMPORAL_TLS_FRONTEND_CERT", "TEMPORAL_TLS_CLIENT1_CA_CERT"},
		"s3":       {"WEED_GRPC_CA", "WEED_GRPC_S3_CERT"},
	} {
		for _, variable := range variables {
			assert.True(t, file.Services[name].Environment[variable] != "",
				"%s answers without a password or certificate: %s is not set", name, variable)
		}
	}
}

// The limits of what runs at once fit the machine that the page asks for, with one worker.
func TestMemoryLimitsFitTheStatedMachine(t *testing.T) {
	total := 0
	for name, s := range readCompose(t).Services {
		if s.Restart == "no" && name != "cli" {
			continue
		}
		n := musttest.Get(strconv.Atoi(s.MemLimit[:len(s.MemLimit)-1]))(t)
		if strings.HasSuffix(s.MemLimit, "g") {
			n *= 1024
		}
		total += n
	}
	stated := regexp.MustCompile(`(\d+) GB of\s+memory`).FindStringSubmatch(readFile(t, "../docs/guides/cluster.md"))
	require.NotNil(t, stated)
	assert.LessOrEqual(t, total, musttest.Get(strconv.Atoi(stated[1]))(t)*1024)
}

// The models of the cluster's file are read as they stand once the # is taken away, with the key of .env.
func TestTheModelsOfTheClusterNeedNoOtherLine(t *testing.T) {
	text := regexp.MustCompile(`(?m)^#(models:|  \w+:)`).ReplaceAllString(readFile(t, "unweaver.cluster.yaml"), "$1")
	path := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	cfg := musttest.Get(config.Load(config.Source{Path: path}))(t)
	for _, model := range [][2]string{
		{cfg.Models.Chat.Provider, cfg.Models.Chat.APIKeyEnv},
		{cfg.Models.Embedding.Provider, cfg.Models.Embedding.APIKeyEnv},
	} {
		assert.Equal(t, [2]string{"openai", "OPENAI_API_KEY"}, model)
	}
}

// base names an image that the Dockerfile builds on.
var base = regexp.MustCompile(`(?m)^FROM (\S+[:/]\S+) AS`)

func TestImagesArePinnedAndBuiltFromTheSourcesAlone(t *testing.T) {
	dockerfile := readFile(t, "images/Dockerfile")
	var images []string
	for name, s := range readCompose(t).Services {
		if s.Build == nil {
			images = append(images, s.Image)
		} else if !strings.Contains(dockerfile, "AS "+s.Build.Target+"\n") {
			t.Errorf("%s builds target %s, which the Dockerfile lacks", name, s.Build.Target)
		}
	}
	released := readFile(t, "images/release.Dockerfile")
	for _, m := range base.FindAllStringSubmatch(dockerfile+released, -1) {
		images = append(images, m[1])
	}
	digests, err := os.ReadFile("images/digests") // written by infra/images/pin.sh, by a maintainer with a registry
	for _, image := range images {
		assert.True(t, err != nil || slices.Contains(strings.Fields(string(digests)), image),
			"%s has no digest of infra/images/digests: run infra/images/pin.sh", image)
		assert.True(t, regexp.MustCompile(`:v?\d+\.\d+|static-debian\d+:nonroot`).MatchString(image),
			"image %q has no version", image)
	}
	for _, want := range []string{"CGO_ENABLED=0", "USER 65532", "distroless/static"} {
		assert.Contains(t, dockerfile, want, "the Dockerfile lacks")
	}
	stages := func(text string) string { return text[strings.Index(text, "\nENV UNWEAVER_CONFIG="):] }
	built := strings.ReplaceAll(stages(dockerfile), "--from=build /out", "$TARGETPLATFORM")
	assert.Equal(t, built, strings.ReplaceAll(stages(released), "ARG TARGETPLATFORM\n", ""),
		"the images of a release differ from those that are built from sources")
	rules := regexp.MustCompile(`(?m)^[^#\n].*`).FindAllString(readFile(t, "../.dockerignore"), -1)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../worker", "../query-api", "../starter").Output()
	require.True(t, err == nil && rules[0] == "**", "the first rule of .dockerignore is %q, want **: %v", rules[0], err)
	sources := []string{"!go.mod", "!go.sum"}
	room := regexp.MustCompile(`(?m)^github.com/unweaver/unweaver/(\w[\w-]*)`)
	for _, m := range room.FindAllStringSubmatch(string(out), -1) {
		sources = append(sources, "!"+m[1])
	}
	for _, source := range sources {
		assert.True(t, slices.Contains(rules, source), "the programs are built from %s, which .dockerignore keeps out",
			source[1:])
	}
	for _, rule := range rules {
		assert.True(t, rule[0] != '!' || slices.Contains(sources, rule),
			"%s goes to the builder and is no source of the programs", rule[1:])
	}
}

func password(variable string) string { return variable + "-0123456789abcdef" }

// writeUsers runs a script that writes a file of users; one of the secrets that it takes may be another.
func writeUsers(t *testing.T, script, other, value string) (string, error) {
	command := exec.CommandContext(t.Context(), "sh", script)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	secrets := regexp.MustCompile(`\b(REDIS|S3)_[A-Z_]+_(PASSWORD|SECRET)\b`).FindAllString(readFile(t, script), -1)
	for _, name := range secrets {
		command.Env = append(command.Env, name+"="+password(name))
	}
	if other != "" {
		command.Env = append(command.Env, other+"="+value)
	}
	out, err := command.Output()
	return string(out), err
}

func TestASecretThatWouldBreakAFileOfUsersIsRefused(t *testing.T) {
	for script, secret := range map[string]string{
		"redis/users.sh": "REDIS_CLI_PASSWORD", "seaweedfs/identities.sh": "S3_CLI_SECRET",
	} {
		assert.NoError(t, musttest.Err(writeUsers(t, script, "", "")), "%s refuses good secrets", script)
		for _, bad := range []string{
			"", "short", `0123456789abcdef"`, "0123456789abcdef\nuser x on nopass", "0123456789abcdef@host",
		} {
			out, err := writeUsers(t, script, secret, bad)
			assert.True(t, err != nil && out == "", "%s takes %q and writes %q", script, bad, out)
		}
	}
}

func TestUsersOfS3MayWriteWhereTheirProgramDoes(t *testing.T) {
	out := musttest.Get(writeUsers(t, "seaweedfs/identities.sh", "", ""))(t)
	writes := map[string][]string{}
	for line := range strings.Lines(out) {
		words := regexp.MustCompile(`[\w*/.:-]{2,}`).FindAllString(line, -1)
		for _, word := range words {
			if place, ok := strings.CutPrefix(word, "Write:"); ok {
				writes[words[1]] = append(writes[words[1]], place)
			}
			assert.NotRegexp(t, `^(Admin.*|Read|Write|List)$`, word, "in every bucket: %q", words)
		}
	}
	for user, want := range map[string][]string{
		"worker": {"unweaver", "milvus/unweaver-import/*"}, "query-api": nil, "milvus": {"milvus"}, "corpus": {"corpus"},
		"cli": {"unweaver", "milvus/unweaver-import/*"},
	} {
		assert.True(t, slices.Equal(writes[user], want), "%s may write to %v, want %v", user, writes[user], want)
	}
}

// mayWrite reports whether rights allow a write, by SeaweedFS's rule: a right names a bucket, or objects by a pattern.
// The right to remove many objects at a time is asked of the bucket, where object is empty.
func mayWrite(rights []string, bucket, object string) bool {
	return slices.ContainsFunc(rights, func(right string) bool {
		prefix, pattern := strings.CutSuffix(right, "*")
		return right == bucket || pattern && strings.HasPrefix(bucket+"/"+object, prefix)
	})
}

// What each command of an operator writes with the command line's own credentials, it may write; no one but the user of
// the corpus fills the corpus.
func TestTheCommandLineMayDoWhatOperatorsDo(t *testing.T) {
	out := musttest.Get(writeUsers(t, "seaweedfs/identities.sh", "", ""))(t)
	rights := map[string][]string{}
	for line := range strings.Lines(out) {
		words := regexp.MustCompile(`[\w*/.:-]{2,}`).FindAllString(line, -1)
		for _, word := range words {
			if place, ok := strings.CutPrefix(word, "Write:"); ok {
				rights[words[1]] = append(rights[words[1]], place)
			}
		}
	}
	const record = "operations/20261127t100000.000000z-abcdef.json"
	for command, keys := range map[string][]string{
		"rollback":             {record, "current.json"},
		"publish":              {record, "current.json", "generations/g1/manifest.json"},
		"discard":              {record, "generations/g1/manifest.json"},
		"tag":                  {record, "tags/g1/kept.json"},
		"branch":               {record, "branches/exp.json", "../_branches/exp.json", "../exp/current.json"},
		"promote":              {record, "current.json"},
		"schedule apply":       {"specs/a.json", "schedule.json"},
		"schedule pause":       {record, "schedule.json"},
		"purge":                {record, "purges/p1.json"},
		"backfill start":       {record, "backfills/old/state.json"},
		"dead-letters discard": {record, "discarded.json"},
		"pause":                {record},
		"cancel --lost":        {record, "lease.json"},
		"restore":              {record},
		"keys create":          {"../_access/keys.json"},
		"doctor":               {"../doctor/probe"},
		"delete":               {"../_deleted/docs/" + record, "lease.json", ""},
	} {
		for _, key := range keys {
			object := path.Join("artifacts/docs", key)
			if key == "" {
				object = ""
			}
			assert.True(t, mayWrite(rights["cli"], "unweaver", object), "%s may not write %q", command, object)
			assert.False(t, mayWrite(rights["query-api"], "unweaver", object), "query-api writes %q", object)
		}
	}
	for _, user := range []string{"worker", "cli"} { // it deletes an index, and probes
		assert.True(t, mayWrite(rights[user], "milvus", core.ImportRoot+"s/docs/a"), "%s may not write imports", user)
	}
	for user, places := range rights {
		assert.Equal(t, user == "corpus", mayWrite(places, "corpus", "docs/a.md"), "%s writes the corpus", user)
	}
}

// TestUsersOfRedisMayDoWhatTheirProgramDoes tries the file of users on a real server.
func TestUsersOfRedisMayDoWhatTheirProgramDoes(t *testing.T) {
	out := musttest.Get(writeUsers(t, "redis/users.sh", "", ""))(t)
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte(out), 0o600))
	address, _ := redistest.Start(t, "--aclfile", users)
	const store = "0123456789abcdef0123456789abcdef"
	url := func(user string) string {
		variable := "REDIS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
		return "redis://" + user + ":" + password(variable) + "@" + address
	}
	checkRefused := func(client, url, command string) {
		arguments := []any{}
		for word := range strings.FieldsSeq(command) {
			arguments = append(arguments, word)
		}
		answer, err := redistest.Raw(t, url).Do(t.Context(), arguments...).Result()
		if err == nil || !regexp.MustCompile(`NOPERM|NOAUTH|WRONGPASS|permission|can't run`).MatchString(err.Error()) {
			t.Errorf("%s gets %v, %v for %s", client, answer, err, command)
		}
	}
	ports := map[string]*redis.Store{}
	for _, user := range []string{"worker", "query-api", "cli"} { // the worker first: it takes the store's prefix
		conn := redistest.Open(t, url(user))
		require.NoError(t, conn.TakePrefix(t.Context(), store), "%s", user)
		ports[user] = redis.New(conn)
	}
	use := coordination.Use{1, 1, 10, 10}
	ctx, worker, query, cli := t.Context(), ports["worker"], ports["query-api"], ports["cli"]
	stored := recordsredis.New(redistest.Open(t, url("worker")))
	read := recordsredis.New(redistest.Open(t, url("query-api")))
	key := store[:8] + ":c:docs:1"
	second := func(_ any, err error) error { return err }
	leased := []coordination.Held{{Index: "docs", Generation: "g"}}
	for what, err := range map[string]error{
		"the worker writes records":        stored.PutRecords(ctx, []records.Record{{Key: key, Value: []byte("v")}}),
		"the worker scans records":         stored.ScanRecords(ctx, store[:8], func([]string) error { return nil }),
		"the worker claims":                second(worker.ClaimAll(ctx, []string{"k", "l"}, "o", time.Minute)),
		"the worker reserves":              second(worker.Reserve(ctx, "e", 1, 1, 10, 10)),
		"the worker mirrors the pointer":   worker.Mirror(ctx, "docs", []byte("{}")),
		"the worker asks who reads":        second(worker.ListLeased(ctx, "docs")),
		"query-api reads records":          second(read.GetRecords(ctx, []string{key})),
		"query-api reads the mirror":       second(query.ReadMirror(ctx, "docs")),
		"query-api leases a generation":    query.Lease(ctx, leased, "r", time.Minute),
		"query-api reserves a model call":  second(query.Reserve(ctx, "e", 1, 1, 10, 10)),
		"query-api settles it":             query.Settle(ctx, "e", 1),
		"query-api takes a quota":          second(query.TakeQuota(ctx, "s", "1", use, coordination.Unlimited)),
		"query-api settles a quota":        query.SettleQuota(ctx, "s", "1", use),
		"the command line writes a state":  cli.SetState(ctx, "docs/g", []byte("x")),
		"the command line reads progress":  second(cli.ReadProgress(ctx, "docs/g")),
		"the command line reads a control": second(cli.ReadControl(ctx, "docs/g")),
		"the worker forgets a run":         worker.ForgetRun(ctx, "docs/g"),
		"the command line moves a mirror":  cli.Mirror(ctx, "docs", []byte("{}")),
		"the command line asks who reads":  second(cli.ListLeased(ctx, "docs")),
		"the command line claims a start":  second(cli.ClaimAll(ctx, []string{"start/docs"}, "o", time.Minute)),
		"and releases it":                  cli.ReleaseAll(ctx, []string{"start/docs"}, "o"),
	} {
		assert.NoError(t, err, "%s", what)
	}
	held := recordsredis.New(redistest.Open(t, url("cli")))
	assert.NoError(t, held.ScanRecords(ctx, store[:8]+":c:docs:", func(keys []string) error {
		return held.DeleteRecords(ctx, keys)
	}), "the command line deletes an index's records")
	assert.NoError(t, cli.ForgetIndex(ctx, "docs"), "the command line forgets a deleted index")
	everybody := []string{"GET other", "FLUSHALL", "CONFIG GET *", "ACL LIST", "KEYS *", "SHUTDOWN", "SAVE"}
	readers := append([]string{"SET " + key + " x", "DEL " + key}, everybody...)
	for user, commands := range map[string][]string{
		"worker": everybody, "cli": append([]string{"UNLINK other", "SET " + store[:8] + ":claim:k x"},
			readers...), "query-api": append([]string{
			"UNLINK " + key, "SET " + store[:8] + ":owner x", "HSET " + store[:8] + ":mirror:docs pointer x",
			"EVAL return(redis.call('SET',KEYS[1],'x')) 1 " + key, "SCAN 0",
		}, readers...),
	} {
		for _, command := range commands {
			checkRefused(user, url(user), command)
		}
	}
	for client, url := range map[string]string{
		"a client without a password": "redis://" + address, "an unknown user": "redis://admin:x@" + address,
	} {
		for _, command := range everybody {
			checkRefused(client, url, command)
		}
	}
}
