package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// checkPatterns refuses a specification with patterns that the configuration would refuse: who starts a build may have
// written one without it, and some patterns take a processor for years.
func checkPatterns(spec core.Spec) error {
	patterns, read := slices.Concat(spec.Include, spec.Exclude), spec.ReadAs()
	for _, one := range slices.Concat(read.Encoding, read.Types) {
		pattern, _, _ := strings.Cut(one, "=")
		patterns = append(patterns, pattern)
	}
	for _, pattern := range patterns {
		why := core.PatternMistake(pattern)
		if !doublestar.ValidatePattern(pattern) {
			why = "is no pattern"
		}
		if why != "" {
			return fault.BadConfig.At("choose documents of", spec.Index).
				Because(fmt.Sprintf("%.80q %s", pattern, why)).
				Advise("correct include, exclude, documents.encoding and documents.types of the index")
		}
	}
	return nil
}

// packageFolders hold what programs install, not what people write.
var packageFolders = []string{"node_modules", "bower_components", "__pycache__"}

// isSetAside reports whether a part of a path keeps it out unless somebody asks for it by name.
func isSetAside(part string) bool {
	return strings.HasPrefix(part, ".") || slices.Contains(packageFolders, part)
}

// isChosen says whether an object of the corpus may be a document, and counts it where it is left out. Hidden files and
// folders of packages are, but where a pattern to include names such a part and matches; then the patterns of the index
// decide: of those to include one must match, where there are any, and none of those to exclude. What is not followed
// may be a folder: one that could hold what a pattern includes is reported, as what lies behind it is not seen.
func (l *listing) isChosen(key string, unfollowed bool) bool {
	out := &l.leftOut
	parts := strings.Split(key, "/")
	if slices.ContainsFunc(parts, isSetAside) && !l.isRequested(key) {
		if slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(packageFolders, part) }) {
			out.Packages++
		} else {
			out.Hidden++
		}
		return false
	}
	included := len(l.Spec.Include) == 0 || matchesAny(l.Spec.Include, key) || unfollowed && mayReach(l.Spec.Include, key)
	switch {
	case !included:
		out.NotIncluded++
		return false
	case matchesAny(l.Spec.Exclude, key):
		out.Excluded++
		return false
	}
	return true
}

// LeavesOut reports whether builds leave an object of a corpus out by its key alone: it is hidden, in a folder of
// packages, or not among what the patterns of the index choose.
func LeavesOut(spec core.Spec, key string) bool {
	owner, sidecar := strings.CutSuffix(key, document.SidecarSuffix)
	if sidecar && (owner == "" || strings.HasSuffix(owner, "/")) { // it has no name but a hidden one
		owner = key
	}
	one := &listing{planner: &planner{In: In{Spec: spec}}}
	return !one.isChosen(owner, false)
}

// isRequested reports whether a pattern that names what is left out by itself includes the key.
func (p *planner) isRequested(key string) bool {
	return slices.ContainsFunc(p.Spec.Include, func(pattern string) bool {
		return slices.ContainsFunc(strings.Split(pattern, "/"), isSetAside) && matchesAny([]string{pattern}, key)
	})
}

// mayReach reports whether one of the patterns may match something below a folder. A name with the extension of a type
// that is read is taken for a file's.
func mayReach(patterns []string, folder string) bool {
	if _, _, file := document.TypeOf(folder); file {
		return false
	}
	parts := strings.Split(folder, "/")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		wanted := strings.Split(pattern, "/")
		for i, part := range parts {
			if i >= len(wanted) {
				return false
			}
			braced := strings.Count(wanted[i], "{") != strings.Count(wanted[i], "}") // around slashes: it may be
			if wanted[i] == "**" || braced {
				return true
			}
			if ok, err := doublestar.Match(wanted[i], part); !ok || err != nil || i == len(wanted)-1 {
				return false
			}
		}
		return true
	})
}

// matchesAny says whether one of the patterns matches. They were validated with the configuration; one that is not
// valid all the same matches nothing.
func matchesAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := doublestar.Match(pattern, key)
		return ok && err == nil
	})
}
