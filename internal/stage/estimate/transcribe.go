package estimate

import "github.com/unweaver/unweaver/internal/model"

// Tokens of an answer about a page, from one with few lines to one that is full of small print.
const (
	leastPageTokens = 200
	mostPageTokens  = 2000
	// pictureFactor is by how much servers count a picture differently, at the usual ones.
	pictureFactor = 3
)

// Transcription returns what so many pages cost.
func Transcription(pages int64) Task {
	return Task{
		Calls:      Range{pages, pages},
		Prompt:     Range{pages * model.PictureTokens / pictureFactor, pages * model.PictureTokens * pictureFactor},
		Completion: Range{pages * leastPageTokens, pages * mostPageTokens},
	}
}
