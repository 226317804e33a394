package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/text"
)

// rule says which values a key takes: in words for the reference, and as a check that gives the mistake or "". The zero
// rule takes every value of the key's type.
type rule struct {
	values  string
	mistake func(value any) string
	schema  schema // the part of the check that JSON Schema can make
}

// newTextRule makes a rule of a check of text.
func newTextRule(values string, mistake func(text string) string) rule {
	return rule{values: values, mistake: func(value any) string { return mistake(fmt.Sprint(value)) }}
}

// allowEmpty lets a rule of text take the empty string.
func allowEmpty(inner rule) rule {
	out := rule{values: inner.values, mistake: func(value any) string {
		if value == "" {
			return ""
		}
		return inner.mistake(value)
	}}
	if known, ok := inner.schema["enum"].([]any); ok {
		out.schema = schema{"enum": append(slices.Clone(known), "")}
	}
	return out
}

func oneOf(known ...string) rule {
	list := strings.Join(known, ", ")
	out := newTextRule(list, func(text string) string {
		if slices.Contains(known, text) {
			return ""
		}
		return fmt.Sprintf("%q is not known; use %s", text, list)
	})
	out.schema = enumOf(known)
	return out
}

// listOf takes lists of what a rule of text takes.
func listOf(values string, item rule) rule {
	out := rule{values: values, mistake: func(value any) string {
		for _, text := range value.([]string) { //nolint:forcetypeassert // the key's field is one
			if why := item.mistake(text); why != "" {
				return why
			}
		}
		return ""
	}}
	if item.schema != nil {
		out.schema = schema{"items": item.schema}
	}
	return out
}

// eachOf returns the rule of lists of known words.
func eachOf(known ...string) rule {
	item := oneOf(known...)
	return listOf(item.values, item)
}

// requireLanguage returns the rule of a language: one whose words are known, or that of the corpus.
func requireLanguage() rule {
	list := core.LanguageAuto + ", " + strings.Join(text.Languages(), ", ")
	return newTextRule(list, func(code string) string {
		if text.IsKnown(code) || code == core.LanguageAuto {
			return ""
		}
		return fmt.Sprintf("%q is not a supported language; use %s (%s: plain words, for every other language)", code,
			list, text.Undetermined)
	})
}

func toNumber(value any) float64 {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// requireRange bounds numbers, both ends included. NaN lies between no two numbers.
func requireRange(least, most float64) rule {
	values := formatFloat(least) + " to " + formatFloat(most)
	bounds := schema{"minimum": least, "maximum": most}
	return rule{schema: bounds, values: values, mistake: func(value any) string {
		if n := toNumber(value); n >= least && n <= most {
			return ""
		}
		return fmt.Sprintf("want %s, got %v", values, value)
	}}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func longerThanZero() rule {
	return rule{values: "longer than 0s", mistake: func(value any) string {
		if d, ok := value.(core.Duration); ok && d > 0 {
			return ""
		}
		return "want a duration longer than 0s"
	}}
}

func requireDuration(least, most time.Duration) rule {
	return rule{values: fmt.Sprintf("%s to %s", least, most), mistake: func(value any) string {
		if d, ok := value.(core.Duration); ok && d >= core.Duration(least) && d <= core.Duration(most) {
			return ""
		}
		return fmt.Sprintf("want %s to %s", least, most)
	}}
}

// hidePassword leaves the password out of a URL that is shown.
func hidePassword(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest, '@') // a password may hold a slash
	if at > end && !strings.Contains(rest[:end], ":") {
		at = strings.LastIndexByte(rest[:end], '@')
	}
	if at < 0 {
		return redact.Text(uri)
	}
	user, _, secret := strings.Cut(rest[:at], ":")
	if secret {
		user += ":xxxxx"
	}
	return redact.Text(scheme + "://" + user + rest[at:])
}

// hostsOf gives what names the servers in a URL: between the scheme (and a user) and the path.
func hostsOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// requireLocation takes a path or a URL of one of the schemes. A URL names a host, or a bucket.
func requireLocation(schemes ...string) rule {
	known := strings.Join(schemes, "://…, ") + "://… or a path"
	return newTextRule(known, func(text string) string {
		scheme, _, isURL := strings.Cut(text, "://")
		switch {
		case !isURL:
			return ""
		case !slices.Contains(schemes, scheme):
			return fmt.Sprintf("%s:// is not known; use %s", scheme, known)
		}
		for _, host := range strings.Split(hostsOf(text), ",") {
			name, port, split := strings.Cut(host, ":")
			if scheme != "s3" && strings.HasPrefix(host, "[") {
				var err error
				name, port, err = net.SplitHostPort(host)
				split = err == nil
			}
			if name == "" {
				return fmt.Sprintf("%q has no host", hidePassword(text))
			}
			if split && !isPort(port, 1) {
				return fmt.Sprintf("%q has no port from 1 to 65535", hidePassword(text))
			}
		}
		return ""
	})
}

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

func requireURL() rule {
	return newTextRule("http(s) URL", func(text string) string {
		u, err := url.Parse(text)
		if redact.InURL(text) {
			return fmt.Sprintf("%q contains a secret, which would be stored with each index; use a URL without it, "+
				"and for models set api_key_env", hidePassword(text))
		}
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" {
			return ""
		}
		return fmt.Sprintf("%q is not an http(s) URL with a host", hidePassword(text))
	})
}

// requireAddress takes host:port with a port from least on. A listener may leave the host out.
func requireAddress(listener bool, least int) rule {
	return newTextRule("host:port", func(text string) string {
		address := text
		if !listener {
			address = strings.TrimPrefix(text, "dns:///")
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || !isPort(port, least) || (host == "" && !listener) {
			return fmt.Sprintf("%q is not of the form host:port, with a port from %d to 65535", text, least)
		}
		return ""
	})
}

// addressOrWeb returns the rule of the address where query-api listens and where the command line finds it: behind a
// proxy that is a URL.
func addressOrWeb() rule {
	listen, proxy := requireAddress(true, 0), requireURL()
	return newTextRule("host:port or http(s) URL", func(text string) string {
		if strings.Contains(text, "://") {
			return proxy.mistake(text)
		}
		return listen.mistake(text)
	})
}

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// requireVariable takes the name of an environment variable. What is no name may be the secret itself: it is not
// repeated.
func requireVariable() rule {
	return newTextRule("name of a variable", func(text string) string {
		if variableForm.MatchString(text) {
			return ""
		}
		return "give the name of an environment variable that holds the key, not the key itself"
	})
}

// requireForm takes texts of a form.
func requireForm(values string, form *regexp.Regexp) rule {
	return newTextRule(values, func(text string) string {
		if form.MatchString(text) {
			return ""
		}
		return fmt.Sprintf("%q: want %s", hidePassword(text), values)
	})
}

func notEmpty() rule {
	return newTextRule("not empty", func(text string) string {
		if strings.TrimSpace(text) == "" {
			return "must not be empty"
		}
		return ""
	})
}

func fileOrObject() rule {
	return newTextRule("path of a file, or s3://bucket/key", func(text string) string {
		if rest, ok := strings.CutPrefix(text, "s3://"); ok {
			if bucket, key, _ := strings.Cut(rest, "/"); bucket == "" || key == "" || strings.HasSuffix(key, "/") {
				return fmt.Sprintf("%s names no object", text)
			}
			return ""
		}
		info, err := os.Stat(text)
		switch {
		case err != nil:
			return fmt.Sprintf("the file %s does not exist", text)
		case info.IsDir():
			return fmt.Sprintf("%s is a directory", text)
		}
		return ""
	})
}

func requireTimezone() rule {
	return newTextRule("IANA name", func(text string) string {
		if _, err := time.LoadLocation(text); err != nil || text == "" || text == "Local" {
			return fmt.Sprintf("%q is not a time zone such as UTC or Europe/Berlin", text)
		}
		return ""
	})
}
