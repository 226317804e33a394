package aliases

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/unweaver/unweaver/internal/core"
)

// ReadTable reads a file and gives its table.
func ReadTable(raw []byte) (core.Aliases, error) {
	if len(raw) > core.MaxAliasBytes {
		return nil, newFault("it has " + strconv.Itoa(len(raw)) + " bytes; at most " + strconv.Itoa(core.MaxAliasBytes) +
			" may be")
	}
	file, err := ParseFile(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return file.ToTable()
}

// ToTable returns what the pins of a file come to: for each name the one that stands for it. That is a preferred name
// of its group, or else the one at the end of its pins. Lines that only forbid change nothing here: they are for what
// suggests pins.
func (f File) ToTable() (core.Aliases, error) {
	if len(f.Pinned) > core.MaxAliases {
		return nil, newFault("it pins " + strconv.Itoa(len(f.Pinned)) + " names; at most " + strconv.Itoa(core.MaxAliases) +
			" may be")
	}
	groups := map[string][]string{}
	for from := range f.Pinned {
		target, err := f.resolvePin(from)
		if err != nil {
			return nil, err
		}
		groups[target] = append(groups[target], from)
	}
	table := core.Aliases{}
	for target, members := range groups {
		members = append(members, target)
		slices.Sort(members)
		stands := target
		if at := slices.IndexFunc(members, func(name string) bool { return f.Preferred[name] }); at >= 0 {
			stands = members[at]
		}
		for _, name := range members {
			if name != stands {
				table[name] = stands
			}
		}
	}
	if len(table) == 0 {
		return nil, nil
	}
	return table, nil
}
