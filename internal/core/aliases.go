package core

// Aliases map names that mean the same to the one that stands for them, by keys of names (docs/reference/formats.md,
// Mentions). No name stands for another and is itself an alias. nil: every name stands for itself.
type Aliases map[string]string

const (
	// MaxAliasBytes bounds a file of aliases.
	MaxAliasBytes = 4 << 20
	// MaxAliases bounds what a file maps: a manifest lists it.
	MaxAliases = 50_000
)

// ResolveKey gives the key of the name that stands for one.
func (a Aliases) ResolveKey(key string) string {
	if to, mapped := a[key]; mapped {
		return to
	}
	return key
}

// DiffKeys gives the keys whose names the two tables map to others.
func (a Aliases) DiffKeys(other Aliases) []string {
	var keys []string
	for key, to := range a {
		if other.ResolveKey(key) != to {
			keys = append(keys, key)
		}
	}
	for key := range other {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	return keys
}
