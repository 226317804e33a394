package access

import (
	"path"
	"slices"
)

// Grant is a scope on the indexes that match a pattern.
type Grant struct {
	Scope Scope
	Index string // glob over names of indexes
}

// Covers reports whether the grant is for an index.
func (g Grant) Covers(index string) bool {
	ok, err := path.Match(g.Index, index)
	return err == nil && ok
}

// Person is who asks with a token of an identity provider, or with a session that began with one.
type Person struct {
	Subject string // names the person in the audit trail and the log: bounded, visible characters without spaces
	Grants  []Grant
	Groups  []string // that have grants, sorted
	Labels  []string // all groups, also those without a grant: labels of documents name some
}

// NewGrants returns what a list of patterns and scopes allows: the widest of the scopes on each pattern.
func NewGrants(indexes []string, scopes []string) []Grant {
	widest := slices.MaxFunc(scopes, func(a, b string) int {
		return slices.Index(Scopes, Scope(a)) - slices.Index(Scopes, Scope(b))
	})
	out := make([]Grant, 0, len(indexes))
	for _, index := range indexes {
		out = append(out, Grant{Scope: Scope(widest), Index: index})
	}
	return out
}
