// Package bill writes bills of materials: which modules a binary holds, in which version, with which checksum, under
// which licence. The format is CycloneDX 1.6 in JSON. Equal binaries have equal bills.
package bill

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// Document is a bill of one binary.
type Document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   Metadata    `json:"metadata"`
	Components []Component `json:"components"`
}

// Metadata names what the bill is of.
type Metadata struct {
	Component Component `json:"component"`
}

// Component is the binary, the toolchain's library, or a module.
type Component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref,omitempty"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	URL        string     `json:"purl,omitempty"`
	Licences   []Licence  `json:"licenses,omitempty"`
	Hashes     []Hash     `json:"hashes,omitempty"`
	Properties []Property `json:"properties,omitempty"`
}

// Licence by its SPDX id.
type Licence struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

// Hash of a file.
type Hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Property is what the format has no field for.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Licences gives the SPDX ids of a module's licences; nil where they are not known.
type Licences func(module, version string) []string

// Of makes the bill of a binary of Go. The version is the product's.
func Of(path, name, version string, licences Licences) (Document, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Document{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Document{}, err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return Document{}, err
	}
	hash := sum.Sum(nil)
	document := Document{Format: "CycloneDX", Spec: "1.6", Serial: serial(hash), Version: 1}
	document.Metadata.Component = Component{
		Type: "application", Ref: "binary", Name: name, Version: version,
		Hashes:     []Hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(hash)}},
		Properties: settings(info.Settings),
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	document.Components = append(libraries(info, version, licences), component("std", goVersion, "", licences))
	slices.SortFunc(document.Components, func(a, b Component) int { return strings.Compare(a.Ref, b.Ref) })
	return document, nil
}

// ownModule is the product's. A binary of another module of the repository holds it, replaced by its folder.
const ownModule = "github.com/unweaver/unweaver"

// libraries are the modules that a binary was made of, its own aside.
func libraries(info *debug.BuildInfo, version string, licences Licences) []Component {
	var out []Component
	for _, module := range info.Deps {
		used := module
		if module.Replace != nil {
			used = module.Replace
		}
		if module.Path == ownModule {
			used = &debug.Module{Path: ownModule, Version: version}
		}
		out = append(out, component(used.Path, used.Version, used.Sum, licences))
	}
	return out
}

func component(path, version, sum string, licences Licences) Component {
	url := "pkg:golang/" + strings.ReplaceAll(path, "@", "%40") + "@" + strings.ReplaceAll(version, "+", "%2B")
	out := Component{Type: "library", Ref: url, Name: path, Version: version, URL: url}
	for _, id := range licences(path, version) {
		licence := Licence{}
		licence.Licence.ID = id
		out.Licences = append(out.Licences, licence)
	}
	if sum != "" {
		out.Properties = []Property{{Name: "go:sum", Value: sum}}
	}
	return out
}

// settings are how the binary was built, without what differs between machines.
func settings(all []debug.BuildSetting) []Property {
	var out []Property
	for _, setting := range all {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "-trimpath", "-ldflags":
			out = append(out, Property{Name: "go:" + setting.Key, Value: setting.Value})
		}
	}
	return out
}

// serial is a UUID made of the binary's hash.
func serial(hash []byte) string {
	id := slices.Clone(hash[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: of the maker's own rule
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Write writes a bill, indented.
func (d Document) Write(path string) error {
	raw, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // a release is for everybody to read
}
