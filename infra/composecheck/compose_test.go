// Package composecheck reads docker-compose.yml and what belongs to it, and holds them to what the deployment promises:
// pinned versions, health checks, limits, no secret with a default, no store that asks nobody who they are, no root.
// `make compose-check` runs it.
package composecheck

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
)

type service struct {
	Image       string            `yaml:"image"`
	User        string            `yaml:"user"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Healthcheck map[string]any    `yaml:"healthcheck"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Build       *struct{ Context, Dockerfile, Target string } `yaml:"build"`
	Ports       []string                                      `yaml:"ports"`
	Volumes     []string                                      `yaml:"volumes"`
	Networks    []string                                      `yaml:"networks"`
	NetworkMode string                                        `yaml:"network_mode"`
	Restart     string                                        `yaml:"restart"`
	CapDrop     []string                                      `yaml:"cap_drop"`
	CapAdd      []string                                      `yaml:"cap_add"`
	SecurityOpt []string                                      `yaml:"security_opt"`
	Privileged  bool                                          `yaml:"privileged"`
	ReadOnly    bool                                          `yaml:"read_only"`
	Tmpfs       []string                                      `yaml:"tmpfs"`
	MemLimit    string                                        `yaml:"mem_limit"`
	PidsLimit   int                                           `yaml:"pids_limit"`
	CPUs        float64                                       `yaml:"cpus"`
}

type composeFile struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
	Networks map[string]struct {
		Internal bool `yaml:"internal"`
	} `yaml:"networks"`
	text string
}

func load(t *testing.T) composeFile {
	t.Helper()
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	file := composeFile{text: string(raw)}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEveryPartIsThereAndPinnedAndProbed(t *testing.T) {
	file := load(t)
	for _, name := range []string{"postgres", "temporal", "s3", "redis", "milvus", "worker", "query-api"} {
		if _, ok := file.Services[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	pinned := regexp.MustCompile(`:v?\d+\.\d+`)
	for name, s := range file.Services {
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		if s.Healthcheck == nil && s.Restart != "no" {
			t.Errorf("%s has no health check", name)
		}
		for needed, c := range s.DependsOn {
			if _, ok := file.Services[needed]; !ok || c.Condition == "" || c.Condition == "service_started" {
				t.Errorf("%s waits for %s with condition %q", name, needed, c.Condition)
			}
			if once := file.Services[needed].Restart == "no"; once != (c.Condition == "service_completed_successfully") {
				t.Errorf("%s waits for %s with condition %q", name, needed, c.Condition)
			}
		}
	}
}

func TestEveryMountIsThere(t *testing.T) {
	file := load(t)
	for name, s := range file.Services {
		for _, volume := range s.Volumes {
			source, target, _ := strings.Cut(volume, ":")
			switch {
			case strings.HasPrefix(source, "./"):
				if _, err := os.Stat("../../" + source); err != nil {
					t.Errorf("%s mounts %s: %v", name, source, err)
				}
				if !strings.HasSuffix(target, ":ro") {
					t.Errorf("%s may write to %s of the host", name, source)
				}
			case target == "" && path.IsAbs(source): // one of its own for each container
			case file.Volumes[source] == nil && !slices.Contains(declared(file), source):
				t.Errorf("%s uses volume %s, which is not declared", name, source)
			}
		}
	}
}

// What does not fit into memory must not lie in it: TMPDIR and the copies of segments are at /cache in our images.
func TestTemporaryFilesLieOnADisk(t *testing.T) {
	for name, s := range load(t).Services {
		if !slices.Contains([]string{"worker", "query-api", "cli"}, name) {
			continue
		}
		if !slices.Contains(s.Volumes, "/cache") {
			t.Errorf("%s has no volume at /cache: %q", name, s.Volumes)
		}
		for _, mount := range s.Tmpfs {
			if strings.HasPrefix(mount, "/cache") {
				t.Errorf("%s keeps /cache in memory", name)
			}
		}
	}
}

func declared(file composeFile) []string {
	var names []string
	for name := range file.Volumes {
		names = append(names, name)
	}
	return names
}

func TestEveryServiceHasLimitsAndNoRights(t *testing.T) {
	memory := regexp.MustCompile(`^\d+[mg]$`)
	// Milvus writes beside its volume: it was not tried with a root that cannot be written to.
	writable, root := []string{"milvus"}, []string{"milvus"}
	for name, s := range load(t).Services {
		if !memory.MatchString(s.MemLimit) || s.PidsLimit <= 0 || s.CPUs <= 0 {
			t.Errorf("%s has the limits mem_limit %q, pids_limit %d, cpus %v", name, s.MemLimit, s.PidsLimit, s.CPUs)
		}
		if s.CPUs > 2 {
			t.Errorf("%s wants %v processors: a host with two would refuse it", name, s.CPUs)
		}
		if s.Privileged || len(s.CapAdd) > 0 || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s keeps rights: drop %v, add %v, %v", name, s.CapDrop, s.CapAdd, s.SecurityOpt)
		}
		if !s.ReadOnly && !slices.Contains(writable, name) {
			t.Errorf("%s may write to its root", name)
		}
		ours := s.Build != nil || strings.HasPrefix(s.Image, "temporalio/admin-tools:") // their images name a user
		if (s.User == "" && !ours && !slices.Contains(root, name)) || s.User == "root" || strings.HasPrefix(s.User, "0") {
			t.Errorf("%s runs as %q", name, s.User)
		}
		for _, mount := range s.Tmpfs {
			if !strings.Contains(mount, "size=") {
				t.Errorf("%s: tmpfs %s has no size", name, mount)
			}
		}
	}
}

// reaches is who shares a network with whom, in one direction.
func reaches(file composeFile, from, to string) bool {
	for _, network := range file.Services[from].Networks {
		if slices.Contains(file.Services[to].Networks, network) {
			return true
		}
	}
	return false
}

func TestOnlyQueryAPIIsReachedFromOutside(t *testing.T) {
	file := load(t)
	for name, s := range file.Services {
		if len(s.Ports) > 0 && name != "query-api" {
			t.Errorf("%s publishes %v", name, s.Ports)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond loopback", name, port)
			}
		}
		if len(s.Networks) == 0 && s.NetworkMode != "none" {
			t.Errorf("%s is on the default network, with everybody", name)
		}
		for _, network := range s.Networks {
			declared, ok := file.Networks[network]
			if !ok {
				t.Errorf("%s is on network %s, which is not declared", name, network)
			}
			leads := !declared.Internal
			if leads && !slices.Contains([]string{"worker", "query-api", "cli"}, name) {
				t.Errorf("%s is on %s, which leads outside", name, network)
			}
		}
	}
}

func TestEachProgramReachesWhatItUsesAlone(t *testing.T) {
	file := load(t)
	allowed := map[string][]string{
		"postgres":  {"temporal", "temporal-schema"},
		"temporal":  {"postgres", "temporal-schema", "temporal-namespace", "worker", "cli"},
		"filer":     {"s3", "buckets"},
		"s3":        {"filer", "buckets", "milvus", "worker", "query-api", "cli"},
		"redis":     {"worker", "query-api", "cli"},
		"milvus":    {"s3", "worker", "query-api", "cli"},
		"query-api": {"s3", "redis", "milvus", "worker", "cli"},
	}
	for to, from := range allowed {
		for name := range file.Services {
			if name != to && reaches(file, name, to) != slices.Contains(from, name) {
				t.Errorf("%s reaches %s: %v", name, to, reaches(file, name, to))
			}
		}
	}
}

// environment of a service, with made-up secrets in place of those that compose would fill in.
func environment(s service) []string {
	reference := regexp.MustCompile(`\$\{[^}]*\}`)
	var out []string
	for name, value := range s.Environment {
		out = append(out, name+"="+reference.ReplaceAllString(value, "made-up-secret-of-a-test"))
	}
	return out
}

// known leaves out variables that this version of the configuration does not know yet.
func known(environment []string) []string {
	return slices.DeleteFunc(environment, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		late := strings.HasPrefix(name, "UNWEAVER_ENGINE_TLS_") || name == "UNWEAVER_API_KEY"
		if !late {
			return false
		}
		_, err := config.Load(config.Source{Path: "../unweaver.cluster.yaml", Env: []string{entry}})
		return err != nil && strings.Contains(err.Error(), "no such key")
	})
}

func TestEveryProgramsConfigurationIsValidAndNamesServers(t *testing.T) {
	for name, s := range load(t).Services {
		if s.Build == nil || name == "certs" {
			continue
		}
		cfg, err := config.Load(config.Source{Path: "../unweaver.cluster.yaml", Env: known(environment(s))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := cfg.Stores.NoPaths(name); err != nil {
			t.Error(err)
		}
	}
}
