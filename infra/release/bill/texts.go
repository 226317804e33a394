package bill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticeFile also tells of files that a licence wants passed on with it.
var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense|notice|patents)([.-].*)?$`)

// ThirdParty gives the licences and notices of what binaries hold, each module once, from the sources that they were
// built from. Equal texts stand once, below the modules that have them.
func ThirdParty(bills ...Document) (string, error) {
	cache, err := goEnvironment("GOMODCACHE")
	if err != nil {
		return "", err
	}
	root, err := goEnvironment("GOROOT")
	if err != nil {
		return "", err
	}
	holders := map[string][]string{}
	for _, document := range bills {
		for _, module := range document.Components {
			if module.Name == ownModule {
				continue // its licence is the product's
			}
			folder := filepath.Join(cache, escaped(module.Name)+"@"+escaped(module.Version))
			if module.Name == "std" {
				folder = root
			}
			text, err := textsIn(folder)
			if err != nil {
				return "", fmt.Errorf("licence of %s %s: %w", module.Name, module.Version, err)
			}
			name := module.Name + " " + module.Version
			if !slices.Contains(holders[text], name) {
				holders[text] = append(holders[text], name)
			}
		}
	}
	var parts []string
	for text, names := range holders {
		slices.Sort(names)
		if text == "" {
			text = "The module has no file with a licence.\n"
		}
		parts = append(parts, strings.Join(names, "\n")+"\n\n"+text)
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n"+strings.Repeat("=", 80)+"\n\n"), nil
}

// textsIn gives the licences and notices in a module's folder.
func textsIn(folder string) (string, error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return "", err
	}
	var texts []string
	for _, entry := range entries {
		if entry.IsDir() || !noticeFile.MatchString(entry.Name()) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))+"\n")
	}
	return strings.Join(texts, "\n"), nil
}

func goEnvironment(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output() //nolint:gosec // one of two names
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
