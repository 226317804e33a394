package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// DocumentsOf opens the corpus of an index, with its links where its configuration says so.
func DocumentsOf(
	ctx context.Context, open func(context.Context, string) (blob.Store, error), settings core.Spec,
) (blob.Store, error) {
	documents, err := open(ctx, settings.Corpus)
	if err != nil || !settings.FollowLinks {
		return documents, err
	}
	return blob.FollowLinks(documents), nil
}
