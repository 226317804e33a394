package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/infra/release/bill"
)

const version = "v0.0.0-test"

// mostWeight of the command line in bytes, stripped.
const mostWeight = 60e6

// released makes the command line's release from the sources in a folder.
func released(t *testing.T, root string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	command := exec.CommandContext(t.Context(), "go", "run", "./infra/release", "-root", root, "-out", out,
		"-version", version, "-targets", "linux/amd64", "-only", "unweaver")
	command.Dir = "../.."
	if printed, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	return out
}

// copied gives a copy of the sources in another folder.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{
		"LICENSE", "go.mod", "go.sum", "activities", "internal", "query-api", "starter", "worker", "workflows",
	} {
		source := filepath.Join("../..", name)
		if info, err := os.Stat(source); err != nil {
			t.Fatal(err)
		} else if info.IsDir() {
			if err := os.CopyFS(filepath.Join(root, name), os.DirFS(source)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		raw, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func contents(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = raw
	}
	return out
}

func TestAReleaseIsTheSameWhereverItIsBuiltAndNamesAllThatIsInIt(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("builds the command line twice")
	}
	first := released(t, ".")
	one, other := contents(t, first), contents(t, released(t, copied(t)))
	if len(one) != 3 { // the archive, the bill, the sums
		t.Fatalf("%d files, want 3", len(one))
	}
	for name, raw := range one {
		if !bytes.Equal(raw, other[name]) {
			t.Errorf("%s differs when it is built in another folder", name)
		}
	}
	name := "unweaver-" + version + "-linux-amd64"
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = first
	if printed, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum --check: %v\n%s", err, printed)
	}
	unpacked := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(first, name+".tar.gz"), "-C", unpacked)
	if printed, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, printed)
	}
	within := contents(t, filepath.Join(unpacked, name))
	if len(within) != 4 || !bytes.Contains(within["THIRD-PARTY-LICENSES.txt"], []byte("github.com/spf13/cobra v")) {
		t.Errorf("the archive holds %d files, and licences %.200s", len(within), within["THIRD-PARTY-LICENSES.txt"])
	}
	binary := filepath.Join(unpacked, name, "unweaver")
	if weight := len(within["unweaver"]); weight > mostWeight {
		t.Errorf("unweaver weighs %.1f MB, want at most %.0f", float64(weight)/1e6, mostWeight/1e6)
	}
	if told, err := exec.CommandContext(t.Context(), binary, "version").Output(); err != nil ||
		!strings.Contains(string(told), "unweaver "+version+" ") {
		t.Errorf("unweaver version says %q, %v", told, err)
	}
	var document bill.Document
	if err := json.Unmarshal(one[name+".cdx.json"], &document); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	unlicensed := 0
	for _, component := range document.Components {
		named[component.Name+" "+component.Version] = true
		if len(component.Licences) == 0 {
			unlicensed++
			t.Log("no licence is known of", component.Name)
		}
	}
	modules := inside(t, binary)
	if len(modules) < 20 {
		t.Fatalf("go version -m names %d modules only", len(modules))
	}
	for _, module := range modules {
		if !named[module] {
			t.Errorf("the bill does not name %s", module)
		}
	}
	if len(document.Components) != len(modules)+1 { // and the toolchain's library
		t.Errorf("the bill names %d components, the binary %d modules", len(document.Components), len(modules))
	}
	if unlicensed > 3 {
		t.Errorf("of %d modules no licence is known", unlicensed)
	}
}

// inside asks the toolchain for the modules of a binary.
func inside(t *testing.T, binary string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 3 && fields[0] == "dep":
			modules = append(modules, fields[1]+" "+fields[2])
		case len(fields) >= 3 && fields[0] == "=>":
			modules[len(modules)-1] = fields[1] + " " + fields[2]
		}
	}
	slices.Sort(modules)
	return modules
}

func TestALicenceIsKnownByItsWords(t *testing.T) {
	for text, want := range map[string][]string{
		"                Apache License\n           Version 2.0, January 2004":          {"Apache-2.0"},
		"Permission is hereby granted, free of charge, to any person\nobtaining a copy": {"MIT"},
		"Redistribution and use in source and binary forms, with":                       {"BSD-2-Clause"},
		"Redistribution and use in source and binary forms … Neither the name of":       {"BSD-3-Clause"},
		"Mozilla Public License Version 2.0":                                            {"MPL-2.0"},
		"All rights reserved.":                                                          nil,
	} {
		if got := bill.Detect(text); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
