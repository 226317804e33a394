// Command release makes what is given away: static binaries that are equal wherever they are built, a bill of materials
// for each, and SHA256SUMS over all. `make release` runs it.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/infra/release/bill"
)

// versionVariable is what the linker sets.
const versionVariable = "github.com/unweaver/unweaver/internal/version.Version"

// program is one binary: the folder of its module, and its package there.
type program struct{ name, module, path string }

var programs = []program{
	{"unweaver", ".", "./starter"},
	{"unweaver-worker", ".", "./worker"},
	{"unweaver-query-api", ".", "./query-api"},
}

// embedded takes minutes to build, so it is built for the host alone.
var embedded = program{"unweaver-dev", "infra/embedded", "."}

func main() {
	root := flag.String("root", ".", "folder of the repository")
	out := flag.String("out", "dist", "folder to write to; what is in it is removed")
	version := flag.String("version", "", "version of the release")
	targets := flag.String("targets", "linux/amd64,linux/arm64", "systems and processors, comma-separated")
	only := flag.String("only", "", "name of the one program to build; empty: all")
	dev := flag.Bool("dev", true, "build unweaver-dev for this host, too")
	flag.Parse()
	if err := release(*root, *out, *version, strings.Split(*targets, ","), *only, *dev); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(root, out, version string, targets []string, only string, dev bool) error {
	if version == "" {
		return fmt.Errorf("-version is missing")
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return err
	}
	licences, err := bill.FromSources()
	if err != nil {
		return err
	}
	for _, target := range targets {
		for _, made := range programs {
			if only != "" && only != made.name {
				continue
			}
			if err := build(root, out, version, target, made, licences); err != nil {
				return err
			}
		}
	}
	if dev && only == "" {
		if err := build(root, out, version, runtime.GOOS+"/"+runtime.GOARCH, embedded, licences); err != nil {
			return err
		}
	}
	return sums(out)
}

// build makes one binary and its bill.
func build(root, out, version, target string, made program, licences bill.Licences) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("target %q is not of the form linux/amd64", target)
	}
	name := strings.Join([]string{made.name, version, system, processor}, "-")
	path, err := filepath.Abs(filepath.Join(out, name))
	if err != nil {
		return err
	}
	fmt.Println("building", name)
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", //nolint:gosec // arguments of a maintainer
		"-ldflags=-s -w -buildid= -X "+versionVariable+"="+version, "-o", path, made.path)
	command.Dir = filepath.Join(root, made.module)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+system, "GOARCH="+processor,
		"GOAMD64=v1", "GOARM64=v8.0")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("build %s: %w", name, err)
	}
	document, err := bill.Of(path, made.name, version, licences)
	if err != nil {
		return err
	}
	unknown := 0
	for _, component := range document.Components {
		if len(component.Licences) == 0 {
			unknown++
		}
	}
	fmt.Printf("  %d modules; of %d the licence is not known\n", len(document.Components), unknown)
	return document.Write(path + ".cdx.json")
}

// sums writes SHA256SUMS, as sha256sum -c reads it.
func sums(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		sum, err := sum(filepath.Join(out, entry.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+entry.Name())
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	text := strings.Join(lines, "\n") + "\n"
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(text), 0o644) //nolint:gosec // for everybody
}

func sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
