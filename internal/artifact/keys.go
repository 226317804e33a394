package artifact

import (
	"io/fs"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// refused is the key of everything whose name is none: no store takes it (blob.CheckKey). Names may come from all who
// reach the engine, and must never become a path.
const refused = "../refused"

// joinKey joins the parts of a key below the index; a part may hold slashes, empty ones are left out. It is refused
// where the index or a part is no name.
func (x Index) joinKey(parts ...string) string {
	if !core.ValidIndex(x.Name) {
		return refused
	}
	var key strings.Builder
	key.WriteString(x.Name)
	for _, part := range parts {
		if part = strings.TrimSuffix(part, "/"); part == "" {
			continue
		}
		if !fs.ValidPath(part) || part == "." || strings.ContainsAny(part, "\\\x00") {
			return refused
		}
		key.WriteByte('/')
		key.WriteString(part)
	}
	return key.String()
}

// refuseSlash lets through a part that is one name, and makes one that holds a slash no name.
func refuseSlash(name string) string {
	if strings.Contains(name, "/") {
		return ".."
	}
	return name
}

// Check refuses the name of an index that is none, or one of the store's own folders.
func (x Index) Check() error {
	if core.ValidIndex(x.Name) {
		return nil
	}
	return fault.InvalidParam.At("name index", fault.QuoteName(x.Name)).
		Because("use letters a-z, digits and hyphens, at most 63, not starting with a hyphen; ledger and doctor are reserved")
}
