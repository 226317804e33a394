// Package redact takes secrets out of text before it is stored or shown: what this process knows to be one, by its
// exact value, and what looks like one. Servers repeat the keys that they refuse, and URLs hold passwords.
package redact

import (
	"log/slog"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// Mark stands where a secret stood.
const Mark = "***"

// shortest value that is taken for a secret wherever it stands, in bytes: a shorter one is part of ordinary words.
const shortest = 6

var known struct {
	sync.RWMutex
	values   map[string]bool
	forms    []string // the values, the longest first
	replacer *strings.Replacer
}

// Register makes a value that this process holds unspeakable, also as it stands in a URL. Empty and very short values
// are passed over. It is safe for concurrent use and cheap for what is known already.
func Register(secrets ...string) {
	for _, secret := range secrets {
		registerSecret(strings.TrimSpace(secret))
	}
}

func registerSecret(secret string) {
	if len(secret) < shortest {
		return
	}
	known.RLock()
	have := known.values[secret]
	known.RUnlock()
	if have {
		return
	}
	known.Lock()
	defer known.Unlock()
	if known.values == nil {
		known.values = map[string]bool{}
	}
	for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
		known.values[form] = true
	}
	forms := make([]string, 0, len(known.values))
	for form := range known.values {
		forms = append(forms, form)
	}
	sort.Slice(forms, func(i, j int) bool { // the longest first: one may hold another
		return len(forms[i]) > len(forms[j]) || len(forms[i]) == len(forms[j]) && forms[i] < forms[j]
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Mark)
	}
	known.forms, known.replacer = forms, strings.NewReplacer(pairs...)
}

// The forms of secrets. What they take is taken also where it is none: a password may hold a slash, and so look like
// a path.
var (
	userinfo = regexp.MustCompile(`(://)([^\s/:@"'<>]*:)?([^\s"'<>]*)@`)
	assigned = regexp.MustCompile(`(?i)([?&;][a-z0-9_.-]*(?:key|token|secret|sig|signature|passw(?:or)?d|pwd|credential)` +
		`[a-z0-9_-]*=)[^\s&#"'<>]+`)
	named = regexp.MustCompile(`(?i)((?:\b|_)` +
		`(?:api[_-]?key|passw(?:or)?d|secret(?:[_-]?access[_-]?key)?|client[_-]?secret)` +
		`["']?\s*[:=]\s*["']?)[^\s"',;&]{6,}`)
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=*-]{8,})`)
	token  = regexp.MustCompile(`\b((?:sk|pk|rk)-|(?:gh[pousr]|hf|github_pat)_|glpat-|xox[abprs]-)` +
		`[A-Za-z0-9_-]{8,}`)
	aws = regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{12,}`)
)

// Text gives a text without secrets. Text of Text is itself.
func Text(text string) string {
	known.RLock()
	replacer := known.replacer
	known.RUnlock()
	if replacer != nil {
		text = replacer.Replace(text)
	}
	if strings.Contains(text, "://") {
		text = userinfo.ReplaceAllStringFunc(text, withoutUser)
	}
	if strings.ContainsAny(text, "=:") {
		text = assigned.ReplaceAllString(text, "${1}"+Mark)
		text = named.ReplaceAllString(text, "${1}"+Mark)
	}
	text = scheme.ReplaceAllStringFunc(text, withoutToken)
	text = token.ReplaceAllString(text, "${1}"+Mark)
	return aws.ReplaceAllString(text, "${1}"+Mark)
}

// plainest value that Known takes out, in bytes: a shorter one may be a word of the documents themselves.
const plainest = 12

// HideKnown gives a text without the secrets that this process holds, by their exact values alone: for texts that are
// results, such as what a model wrote, in which what merely looks like a secret has its place.
func HideKnown(text string) string {
	known.RLock()
	defer known.RUnlock()
	for _, form := range known.forms {
		if len(form) >= plainest && strings.Contains(text, form) {
			text = strings.ReplaceAll(text, form, Mark)
		}
	}
	return text
}

// MeasureTail returns the length of the longest end of text, in bytes, that a secret which Known would take out may
// begin with: who passes text on as it comes holds it back.
func MeasureTail(text string) int {
	known.RLock()
	defer known.RUnlock()
	longest := 0
	for _, form := range known.forms {
		if len(form) < plainest {
			continue
		}
		for size := min(len(form)-1, len(text)); size > longest; size-- {
			if strings.HasSuffix(text, form[:size]) {
				longest = size
			}
		}
	}
	return longest
}

// withoutUser leaves the name of a user and takes the password; a name without one may be a token.
func withoutUser(found string) string {
	parts := userinfo.FindStringSubmatch(found)
	if parts[2] != "" && parts[3] == "xxxxx" || parts[2] == "" && strings.Contains(parts[3], "/") {
		return found // taken out already; a path that holds an @
	}
	return parts[1] + parts[2] + Mark + "@"
}

// withoutToken takes what follows bearer or basic where it is no word.
func withoutToken(found string) string {
	parts := scheme.FindStringSubmatch(found)
	if !strings.ContainsAny(parts[3], "0123456789-_=") {
		return found
	}
	return parts[1] + parts[2] + Mark
}

// InURL reports whether a URL holds a secret: a user, or a parameter that is called like one.
func InURL(text string) bool {
	return assigned.MatchString(text) ||
		strings.Contains(text, "://") && userinfo.ReplaceAllStringFunc(text, withoutUser) != text
}

// Attr takes secrets out of an attribute of a log: it serves as ReplaceAttr of the log's handler.
func Attr(_ []string, attr slog.Attr) slog.Attr {
	switch attr.Value.Kind() {
	case slog.KindString:
		attr.Value = slog.StringValue(Text(attr.Value.String()))
	case slog.KindAny:
		if err, ok := attr.Value.Any().(error); ok {
			attr.Value = slog.StringValue(Text(err.Error()))
		}
	}
	return attr
}
