package dir_test

import (
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

// project makes a folder of documents with the folder of this program's own files in it, and links into that one.
func project(t *testing.T) (root, data string) {
	t.Helper()
	root = t.TempDir()
	data = filepath.Join(root, "data")
	for _, file := range []string{"a.txt", "data.txt", "data/dev.json", "data/deep/secret.txt", "z/b.txt"} {
		path := filepath.Join(root, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	}
	for link, target := range map[string]string{"in.txt": "data/dev.json", "indeed": "data/deep", "whole": "data"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skip("no links here:", err)
		}
	}
	return root, data
}

func TestOwnFilesBelowACorpusAreNamedAndNeverRead(t *testing.T) {
	root, data := project(t)
	corpus, err := dir.OpenCorpus(root, data, filepath.Join(root, "gone"))
	require.NoError(t, err)
	for how, store := range map[string]blob.Store{"links named": corpus, "links followed": corpus.FollowLinks()} {
		keys, left := listed(t, store)
		want := []string{"a.txt", "data.txt", "z/b.txt"}
		assert.True(t, slices.Equal(keys, want), "%s: listed %v, want %v", how, keys, want)
		want = []string{"data", "in.txt", "indeed", "whole"}
		assert.True(t, slices.Equal(left, want), "%s: left out %v, want %v", how, left, want)
		for info, err := range store.List(t.Context(), "data/", "") {
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: below it %q is listed: %v", how, info.Key, err)
		}
		for _, key := range []string{"data/dev.json", "data/deep/secret.txt", "in.txt", "indeed/secret.txt"} {
			_, _, err := store.Get(t.Context(), key, blob.All)
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: %s is read: %v", how, key, err)
			_, err = store.Stat(t.Context(), key)
			assert.True(t, fault.Is(err, fault.NotFollowed), "%s: %s is described: %v", how, key, err)
		}
		if body, _, err := store.Get(t.Context(), "z/b.txt", blob.All); err != nil {
			t.Error(err)
		} else {
			_ = body.Close()
		}
	}
}

func TestACorpusInAFolderOfOwnFilesIsRefused(t *testing.T) {
	root, data := project(t)
	for _, path := range []string{data, filepath.Join(data, "deep"), filepath.Join(root, "indeed"), data + "/../data/"} {
		_, err := dir.OpenCorpus(path, data)
		assert.True(t, fault.Is(err, fault.CorpusRefused), "%s: %v", path, err)
	}
}
