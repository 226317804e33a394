package wheel

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// configuredIndex returns the Python index that this machine names for pip, empty where it names none.
func configuredIndex() string {
	for _, variable := range []string{"PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		if index := os.Getenv(variable); index != "" {
			return index
		}
	}
	var files []string
	if named := os.Getenv("PIP_CONFIG_FILE"); named != "" {
		files = append(files, named)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if own, err := os.UserConfigDir(); err == nil {
			files = append(files, filepath.Join(own, "pip", "pip.conf"))
		}
		files = append(files, filepath.Join(home, ".config", "pip", "pip.conf"), filepath.Join(home, ".pip", "pip.conf"))
	}
	for _, file := range append(files, "/etc/pip.conf") {
		if raw, err := os.ReadFile(file); err == nil {
			if index := indexOf(raw); index != "" {
				return index
			}
		}
	}
	return ""
}

// indexOf returns index-url of the section global of a pip configuration.
func indexOf(raw []byte) string {
	section := ""
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		key, value, found := strings.Cut(line, "=")
		key = strings.ReplaceAll(strings.TrimSpace(key), "_", "-")
		if found && section == "global" && key == "index-url" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// link is an anchor on a project's page of an index.
var link = regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"']+)["']`)

// findInIndex returns the URL that an index gives for a wheel.
func findInIndex(ctx context.Context, index, wheel string) (string, error) {
	project, _, _ := strings.Cut(wheel, "-")
	base, err := url.Parse(strings.TrimSuffix(index, "/") + "/" + strings.ReplaceAll(project, "_", "-") + "/")
	if err != nil {
		return "", err
	}
	var page []byte
	if err := fetchURL(ctx, base.String(), nil, func(r io.Reader) (err error) {
		page, err = io.ReadAll(io.LimitReader(r, 64<<20))
		return err
	}); err != nil {
		return "", err
	}
	for _, found := range link.FindAllSubmatch(page, -1) {
		at, err := url.Parse(html.UnescapeString(string(found[1])))
		if err != nil || path.Base(at.Path) != wheel {
			continue
		}
		at = base.ResolveReference(at)
		at.Fragment = ""
		if at.User == nil && at.Host == base.Host {
			at.User = base.User
		}
		return at.String(), nil
	}
	return "", fmt.Errorf("%s has no %s", base.Redacted(), wheel)
}
