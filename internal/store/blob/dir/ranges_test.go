package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
)

// listAll returns what a listing gives, errors of objects too.
func listAll(t *testing.T, store blob.Store, after, until string) (out []string) {
	t.Helper()
	for info, err := range store.ListRange(t.Context(), "", after, until) {
		require.True(t, err == nil || info.Key != "", "%v", err)
		out = append(out, fmt.Sprint(info.Key, " ", fault.CodeOf(err)))
	}
	return out
}

// Wherever a listing is cut, each object and each thing that is left out is given once: links to folders too, which are
// named without the slash that they are sorted with, and of which only one to each folder is followed.
// Promises: 33.
func TestRangesOfACorpusWithLinksTellEverythingOnce(t *testing.T) {
	root := hostile(t)
	for _, file := range []string{"outdir-beside.txt", "d1.txt", "sub.txt", "sub-beside.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, file), []byte(file), 0o600))
	}
	store := must(dir.OpenCorpus(root))
	for name, store := range map[string]blob.Store{"named": store, "followed": blob.FollowLinks(store)} {
		all := listAll(t, store, "", "")
		require.True(t, len(all) >= 12, "%s: %q", name, all)
		for info := range store.ListRange(t.Context(), "", "", "") {
			for _, cut := range []string{info.Key, info.Key + "-", info.Key + "/", info.Key + "/deep", info.Key + "0"} {
				low, high := listAll(t, store, "", cut), listAll(t, store, cut, "")
				assert.True(t, slices.Equal(slices.Concat(low, high), all),
					"%s, cut at %q: %q and %q, of %q", name, cut, low, high, all)
			}
		}
	}
}
