package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// The files with the id of an artifact store: all that the stores beside it hold is bound to that id, and nothing else
// gives it, so it is kept twice.
const (
	storeFile = "store.json"
	storeCopy = "store.json.copy"
)

// identity is what both files hold.
type identity struct {
	ID  string `json:"id"`
	Sum string `json:"sum,omitempty"` // of the id; one that was written by hand has none
}

func sumOf(id string) string {
	sum := sha256.Sum256([]byte("store " + id))
	return hex.EncodeToString(sum[:4])
}

// StoreID returns the random identity of an artifact store, and writes nothing: it takes one request, to ask whether
// the store answers. A store without an identity is fault.StoreDown: it was moved away or emptied, or never opened.
func StoreID(ctx context.Context, store blob.Store) (string, error) {
	id, err := readID(ctx, store, storeFile)
	if !isNoID(err) {
		return id, err
	}
	known, copyErr := readID(ctx, store, storeCopy)
	if fault.Is(err, fault.NotFound) && fault.Is(copyErr, fault.NotFound) {
		return "", fault.StoreDown.At("open store", store.Location("")).
			Because("it has no " + storeFile + ": it was moved or emptied").
			Advise("mount it or put it back; to begin with an empty store, restart")
	}
	return chooseID(store, known, copyErr)
}

// OpenStoreID returns the identity of a store for the start of a process: a new store gets one, with If-None-Match, and
// of the two files the one that is lost or damaged is written again from the other.
func OpenStoreID(ctx context.Context, store blob.Store) (string, error) {
	id, err := readID(ctx, store, storeFile)
	known, copyErr := readID(ctx, store, storeCopy)
	switch {
	case fault.Is(err, fault.NotFound) && fault.Is(copyErr, fault.NotFound):
		raw := make([]byte, 16)
		_, _ = rand.Read(raw) // never fails
		known, copyErr = putID(ctx, store, storeCopy, hex.EncodeToString(raw), blob.Cond{Absent: true})
	case err == nil && (isNoID(copyErr) || copyErr == nil && known != id):
		_, _ = putID(ctx, store, storeCopy, id, blob.Cond{Absent: fault.Is(copyErr, fault.NotFound)})
	}
	if !isNoID(err) {
		return id, err
	}
	if known, copyErr = chooseID(store, known, copyErr); copyErr != nil {
		return "", copyErr
	}
	return putID(ctx, store, storeFile, known, blob.Cond{Absent: fault.Is(err, fault.NotFound)})
}

// isNoID reports whether a file of the identity is lost or damaged, rather than that the store does not answer.
func isNoID(err error) bool {
	return fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage)
}

// chooseID returns the identity of the copy, where the first file has none.
func chooseID(store blob.Store, known string, err error) (string, error) {
	if isNoID(err) {
		return "", fault.SegmentDamage.At("read", store.Location(storeFile)).
			Because("the file and its copy contain no store id").
			Advise("put " + store.Location(storeFile) + " back from a backup; or remove both and start again: a file of " +
				"stores.classes then names the id to write into it; with Redis run: unweaver restore --all")
	}
	return known, err
}

func readID(ctx context.Context, store blob.Store, key string) (string, error) {
	var found identity
	if _, err := blob.ReadJSON(ctx, store, key, &found); err != nil {
		return "", err
	}
	if len(found.ID) != 32 || found.Sum != "" && found.Sum != sumOf(found.ID) {
		return "", fault.SegmentDamage.At("read", store.Location(key)).Because("it contains no store id")
	}
	return found.ID, nil
}

// putID writes an id, and returns the one that is there then: another process may have been first.
func putID(ctx context.Context, store blob.Store, key, id string, cond blob.Cond) (string, error) {
	_, err := blob.WriteJSON(ctx, store, key, identity{ID: id, Sum: sumOf(id)}, cond)
	if err != nil && !fault.Is(err, fault.Precondition) {
		return "", err
	}
	return readID(ctx, store, key)
}
