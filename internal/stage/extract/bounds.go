package extract

import (
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
)

// What is taken of one answer, of any payer and any time. Ordinary answers have some tens of entities of some words.
const (
	MaxName        = 1_000  // runes; an entity with a longer name is dropped
	MaxDescription = 20_000 // runes; a longer one is cut
)

// boundEntities gives the entities that are taken, and how many were dropped or cut.
func boundEntities(entities []entity) (kept []entity, cut int64) {
	kept = entities[:0:0]
	for i, one := range entities {
		if len(kept) == core.MaxEntities {
			return kept, cut + int64(len(entities)-i)
		}
		if len(one.Name) > MaxName && utf8.RuneCountInString(one.Name) > MaxName {
			cut++
			continue
		}
		if len(one.Description) > MaxDescription && utf8.RuneCountInString(one.Description) > MaxDescription {
			one.Description = string([]rune(one.Description)[:MaxDescription])
			cut++
		}
		kept = append(kept, one)
	}
	return kept, cut
}
