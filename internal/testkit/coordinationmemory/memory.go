// Package coordinationmemory is the embedded coordination store over a file without a name: it goes with its process.
package coordinationmemory

import (
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
)

// Store is one.
type Store = bolt.Store

// New makes an empty store.
func New() *Store {
	folder, err := os.MkdirTemp("", "coordination-*")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	store, err := bolt.Open(filepath.Join(folder, "runs"))
	if err != nil {
		panic(err)
	}
	return store
}
