// Command release makes what is given away: archives of static binaries that are equal wherever they are built, a bill
// of materials for each binary, and SHA256SUMS over all. `make release` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/infra/release/bill"
	"github.com/unweaver/unweaver/infra/release/pack"
)

// versionVariable is what the linker sets.
const versionVariable = "github.com/unweaver/unweaver/internal/core/version.Version"

func main() {
	var made release
	flag.StringVar(&made.root, "root", ".", "folder of the repository")
	flag.StringVar(&made.out, "out", "dist", "folder to write to; what is in it is removed")
	flag.StringVar(&made.version, "version", "", "version of the release")
	targets := flag.String("targets", strings.Join(pack.Targets, ","), "systems and processors, comma-separated")
	only := flag.String("only", "", "names of the programs to build, comma-separated; empty: all")
	flag.Parse()
	if *only != "" {
		made.only = strings.Split(*only, ",")
	}
	if err := made.all(strings.Split(*targets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is made, and from what.
type release struct {
	root, out, version string
	only               []string // programs; empty: all
	work               string   // folder of binaries that are not packed yet
	licences           bill.Licences
}

func (r release) all(targets []string) (err error) {
	if r.version == "" {
		return fmt.Errorf("-version is missing")
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // a release is for everybody to read
		return err
	}
	if r.licences, err = bill.FromSources(); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "unweaver-release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	for _, target := range targets {
		for _, product := range pack.Products {
			if err := r.product(product, target); err != nil {
				return err
			}
		}
	}
	return pack.Sums(r.out)
}

// product makes the archive of a product for one system and processor, and the bills of its programs.
func (r release) product(product pack.Product, target string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("target %q is not of the form linux/amd64", target)
	}
	folder := strings.Join([]string{product.Name, r.version, system, processor}, "-")
	files := []pack.File{
		{Name: "LICENSE", From: filepath.Join(r.root, "LICENSE")},
		{Name: "README.txt", Text: product.About},
	}
	var bills []bill.Document
	for _, program := range product.Programs {
		if len(r.only) > 0 && !slices.Contains(r.only, program.Name) {
			continue
		}
		binary, err := r.build(program, system, processor)
		if err != nil {
			return err
		}
		document, err := bill.Of(binary, program.Name, r.version, r.licences)
		if err != nil {
			return err
		}
		bills = append(bills, document)
		beside := filepath.Join(r.out, strings.Join([]string{program.Name, r.version, system, processor}, "-")+".cdx.json")
		if err := document.Write(beside); err != nil {
			return err
		}
		files = append(files,
			pack.File{Name: program.Name, From: binary, Program: true},
			pack.File{Name: "sbom/" + program.Name + ".cdx.json", From: beside})
	}
	if len(bills) == 0 {
		return nil
	}
	licences, err := bill.ThirdParty(bills...)
	if err != nil {
		return err
	}
	files = append(files, pack.File{Name: "THIRD-PARTY-LICENSES.txt", Text: licences})
	return write(filepath.Join(r.out, folder+".tar.gz"), folder, files)
}

// write writes an archive.
func write(path, folder string, files []pack.File) error {
	archive, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pack.Write(archive, folder, files); err != nil {
		_ = archive.Close()
		return err
	}
	return archive.Close()
}

// build makes one binary, and gives its path.
func (r release) build(program pack.Program, system, processor string) (string, error) {
	name := strings.Join([]string{program.Name, system, processor}, "-")
	path, err := filepath.Abs(filepath.Join(r.work, name))
	if err != nil {
		return "", err
	}
	begin := time.Now()
	fmt.Printf("building %s for %s/%s\n", program.Name, system, processor)
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", //nolint:gosec // arguments of a maintainer
		"-ldflags=-s -w -buildid= -X "+versionVariable+"="+r.version, "-o", path, program.Package)
	command.Dir = filepath.Join(r.root, program.Module)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+system, "GOARCH="+processor,
		"GOAMD64=v1", "GOARM64=v8.0")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	fmt.Printf("  %.1f MB, after %.0f s\n", float64(info.Size())/1e6, time.Since(begin).Seconds())
	return path, nil
}
