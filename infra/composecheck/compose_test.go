// Package composecheck reads docker-compose.yml and the images' Dockerfile and holds them to what the deployment
// promises: pinned versions, health checks, no secret with a default, no root. `make compose-check` runs it.
package composecheck

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/store/wiring"
)

type service struct {
	Image       string            `yaml:"image"`
	Environment map[string]string `yaml:"environment"`
	Healthcheck map[string]any    `yaml:"healthcheck"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Build   *struct{ Context, Dockerfile, Target string } `yaml:"build"`
	Ports   []string                                      `yaml:"ports"`
	Volumes []string                                      `yaml:"volumes"`
	Restart string                                        `yaml:"restart"`
}

func load(t *testing.T) (map[string]service, string) {
	t.Helper()
	raw, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Services map[string]service `yaml:"services"`
		Volumes  map[string]any     `yaml:"volumes"`
	}
	if err := yaml.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	for n, s := range c.Services {
		for _, v := range s.Volumes {
			src, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(src, "./") {
				if _, err := os.Stat("../../" + src); err != nil {
					t.Errorf("%s mounts %s: %v", n, src, err)
				}
			} else if _, ok := c.Volumes[src]; !ok {
				t.Errorf("%s uses volume %s, which is not declared", n, src)
			}
		}
	}
	return c.Services, string(raw)
}

func TestEveryPartIsThereAndPinnedAndProbed(t *testing.T) {
	services, _ := load(t)
	for _, n := range []string{"postgres", "temporal", "s3", "redis", "milvus", "worker", "query-api"} {
		if _, ok := services[n]; !ok {
			t.Errorf("%s is missing", n)
		}
	}
	pinned := regexp.MustCompile(`:v?\d+\.\d+`)
	for n, s := range services {
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version", n, s.Image)
		}
		if s.Healthcheck == nil && s.Restart != "no" {
			t.Errorf("%s has no health check", n)
		}
		for d, c := range s.DependsOn {
			if _, ok := services[d]; !ok || c.Condition == "" || c.Condition == "service_started" {
				t.Errorf("%s waits for %s with condition %q", n, d, c.Condition)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond loopback", n, p)
			}
		}
	}
}

func TestNoSecretHasADefault(t *testing.T) {
	services, text := load(t)
	secret := regexp.MustCompile(`(?i)(password|secret|pwd|access_key)`)
	for n, s := range services {
		for k, v := range s.Environment {
			if secret.MatchString(k) && !strings.Contains(v, ":?") {
				t.Errorf("%s: %s is not required from the environment: %q", n, k, v)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\$\{([A-Z0-9_]+)(:?-)([^}]*)\}`).FindAllStringSubmatch(text, -1) {
		if m[3] != "" {
			t.Errorf("%s has the default %q", m[1], m[3])
		}
	}
	example, err := os.ReadFile("../env.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\$\{([A-Z0-9_]+):\?`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(example), m[1]+"=\n") {
			t.Errorf("%s is not in infra/env.example, or has a value there", m[1])
		}
	}
}

func TestTheMountedConfigurationIsValidAndNamesServers(t *testing.T) {
	cfg, err := config.Load(config.Source{Path: "../unweaver.cluster.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if err := wiring.NoPaths(cfg.Stores, "worker"); err != nil {
		t.Error(err)
	}
}

func TestImagesAreStaticAndRunWithoutRights(t *testing.T) {
	raw, err := os.ReadFile("../images/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	services, _ := load(t)
	for n, s := range services {
		if s.Build != nil && !strings.Contains(text, "AS "+s.Build.Target+"\n") {
			t.Errorf("%s builds target %s, which the Dockerfile lacks", n, s.Build.Target)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "USER 65532", "distroless/static", "golang:1.26"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile lacks %s", want)
		}
	}
}
