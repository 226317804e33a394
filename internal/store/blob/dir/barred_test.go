package dir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
)

// project is a folder of documents with the folder of this program's own files in it, and links into that one.
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
	for how, store := range map[string]blob.Store{"links named": corpus, "links followed": corpus.Following()} {
		keys, left := listed(t, store)
		if want := []string{"a.txt", "data.txt", "z/b.txt"}; !slices.Equal(keys, want) {
			t.Errorf("%s: listed %v, want %v", how, keys, want)
		}
		if want := []string{"data", "in.txt", "indeed", "whole"}; !slices.Equal(left, want) {
			t.Errorf("%s: left out %v, want %v", how, left, want)
		}
		for info, err := range store.List(t.Context(), "data/", "") {
			if !fault.Is(err, fault.NotFollowed) {
				t.Errorf("%s: below it %q is listed: %v", how, info.Key, err)
			}
		}
		for _, key := range []string{"data/dev.json", "data/deep/secret.txt", "in.txt", "indeed/secret.txt"} {
			if _, _, err := store.Get(t.Context(), key, blob.All); !fault.Is(err, fault.NotFollowed) {
				t.Errorf("%s: %s is read: %v", how, key, err)
			}
			if _, err := store.Stat(t.Context(), key); !fault.Is(err, fault.NotFollowed) {
				t.Errorf("%s: %s is described: %v", how, key, err)
			}
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
		if _, err := dir.OpenCorpus(path, data); !fault.Is(err, fault.CorpusRefused) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
