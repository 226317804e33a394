// Package title returns, in a record of fixed width, which classes the title of a document names. So a walk knows
// whether a class is the subject of a chunk without reading the document (docs/reference/formats.md, Artifacts).
package title

import (
	"encoding/binary"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Section of the files of splits that holds one Named a document.
const Section = "titles"

// Named are the first eight bytes, big endian, of the ids of the classes that a title names: as it stands, and without
// a parenthesis at its end ("Mercury (planet)" is called Mercury elsewhere). 0 is none.
type Named [2]uint64

// ParseTitle returns the classes of a title, of which names may be aliases. Under parity names are compared as they
// stand, and no chunk mentions its title: nothing is named.
func ParseTitle(title string, parity bool, aliases core.Aliases) Named {
	var out Named
	key := names.Key(title, false)
	if parity || key == "" {
		return out
	}
	out[0] = leadingBits(core.ClassID(aliases.ResolveKey(key)))
	if open := strings.LastIndex(key, " ("); open > 0 && strings.HasSuffix(key, ")") {
		out[1] = leadingBits(core.ClassID(aliases.ResolveKey(names.Key(key[:open], false))))
	}
	return out
}

// HasClass reports whether the title names a class.
func (n Named) HasClass(class core.ID) bool {
	id := leadingBits(class)
	return id != 0 && (id == n[0] || id == n[1])
}

func leadingBits(class core.ID) uint64 { return binary.BigEndian.Uint64(class[:8]) }
