package composecheck

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func dockerfile(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../images/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestImagesAreStaticAndRunWithoutRights(t *testing.T) {
	text := dockerfile(t)
	for name, s := range load(t).Services {
		if s.Build != nil && !strings.Contains(text, "AS "+s.Build.Target+"\n") {
			t.Errorf("%s builds target %s, which the Dockerfile lacks", name, s.Build.Target)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "USER 65532", "distroless/static", "golang:1.26"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile lacks %s", want)
		}
	}
}

var from = regexp.MustCompile(`(?m)^FROM (\S+[:/]\S+) AS`)

// foreign are the images that others make: those of the file and the Dockerfile's bases.
func foreign(services map[string]service, dockerfile string) []string {
	var images []string
	for _, s := range services {
		if s.Build == nil {
			images = append(images, s.Image)
		}
	}
	for _, m := range from.FindAllStringSubmatch(dockerfile, -1) {
		images = append(images, m[1])
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// digests reads infra/images/digests: image:tag@sha256:… a line.
func digests(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	out := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		image, _, ok := strings.Cut(lines.Text(), "@sha256:")
		if !ok {
			t.Errorf("%q is no image with a digest", lines.Text())
		}
		out[image] = lines.Text()
	}
	return out
}

// unpinned are the images whose digest is not the one of the list.
func unpinned(images []string, list map[string]string) []string {
	var out []string
	for _, image := range images {
		tagged, _, _ := strings.Cut(image, "@")
		if list[tagged] != image {
			out = append(out, image)
		}
	}
	return out
}

func TestEveryImageHasTheDigestOfTheListOnceThereIsOne(t *testing.T) {
	const list = "../images/digests"
	images := foreign(load(t).Services, dockerfile(t))
	if _, err := os.Stat(list); err != nil {
		t.Skip("images are pinned by tag alone: a maintainer with a registry runs infra/images/pin.sh")
	}
	for _, image := range unpinned(images, digests(t, list)) {
		t.Errorf("%s has not the digest of infra/images/digests: run infra/images/pin.sh", image)
	}
}

func TestPinningWritesTheDigestOfEveryImage(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"docker-compose.yml", "infra/images/Dockerfile"} {
		raw, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, path), string(raw), 0o600)
	}
	pin := func(digit string) (string, error) {
		tools := t.TempDir()
		answer := fmt.Sprintf("#!/bin/sh\nprintf 'sha256:%%064d\\n' %s\n", digit)
		write(t, filepath.Join(tools, "crane"), answer, 0o700) //nolint:gosec // a program of the test
		command := exec.CommandContext(t.Context(), "bash", "../images/pin.sh")
		command.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "PIN_ROOT=" + root}
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, digit := range []string{"7", "8"} { // a second time replaces
		if out, err := pin(digit); err != nil {
			t.Fatal(err, out)
		}
		list := digests(t, filepath.Join(root, "infra/images/digests"))
		var images []string
		for _, path := range []string{"docker-compose.yml", "infra/images/Dockerfile"} {
			raw, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(`(?m)^(?: *image: |FROM )(\S+[:/]\S+)`).FindAllStringSubmatch(string(raw), -1)
			for _, m := range found {
				if !strings.HasPrefix(m[1], "unweaver-") {
					images = append(images, m[1])
				}
			}
		}
		if left := unpinned(images, list); len(images) < 7 || len(left) > 0 {
			t.Errorf("of %d images %v are not pinned by %v", len(images), left, slices.Collect(maps.Values(list)))
		}
		for image, pinned := range list {
			if want := fmt.Sprintf("%s@sha256:%064s", image, digit); pinned != want {
				t.Errorf("%s is pinned as %s", image, pinned)
			}
		}
	}
	if out, err := pin("no-digest"); err == nil {
		t.Errorf("an answer that is no digest was taken: %s", out)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestTheBuilderGetsTheSourcesAndNothingElse(t *testing.T) {
	raw, err := os.ReadFile("../../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
	if lines[0] != "**" {
		t.Fatalf("the first rule is %q: what is not named must stay out", lines[0])
	}
	allowed := map[string]bool{}
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "!"); ok {
			allowed[name] = true
		}
	}
	for _, secret := range []string{".env", ".git", ".servers", "bin", "unweaver-data", "infra", "docs"} {
		if allowed[secret] {
			t.Errorf("%s goes to the builder", secret)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"./worker", "./query-api", "./starter")
	command.Dir = "../.."
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		inside, ours := strings.CutPrefix(path, "github.com/unweaver/unweaver/")
		top, _, _ := strings.Cut(inside, "/")
		if ours && !allowed[top] {
			t.Errorf("%s is built from %s, which .dockerignore keeps out", path, top)
			allowed[top] = true
		}
	}
}
