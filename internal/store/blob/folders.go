package blob

import (
	"context"
	"iter"
	"strings"
)

// FoldersOf lists folders as Folders does, for a store whose listings may begin anywhere at no cost: it takes one for
// each folder.
func FoldersOf(
	ctx context.Context, list func(ctx context.Context, prefix, after string) iter.Seq2[Info, error],
) ([]string, error) {
	var folders []string
	for after, more := "", true; more; {
		more = false
		for info, err := range list(ctx, "", after) {
			if err != nil {
				return nil, err
			}
			name, _, folder := strings.Cut(info.Key, "/")
			after, more = info.Key, true
			if folder {
				folders = append(folders, name)
				after = name + "0" // '0' follows '/': the rest of the folder is passed over
			}
			break
		}
	}
	return folders, nil
}
