// Package infra_test checks what docker compose cannot know of docker-compose.yml: who has which rights, secrets and
// networks, and that images are pinned. `make compose-check` runs it.
package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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
