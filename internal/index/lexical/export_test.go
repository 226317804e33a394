package lexical

import "github.com/unweaver/unweaver/internal/index/postings"

// New searches one side, all of whose rows live.
func New(side *postings.Side) *Index {
	return composeIndex([]Part{{Side: side}}, nil, side.Stats().Totals())
}
