package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// What the keys of files that come with requests end with.
const (
	ProbesSuffix  = ".probes.jsonl"
	AliasesSuffix = ".aliases.txt"
)

// ProbesKey returns the key of a file of probe questions, by the sum of its bytes.
func (x Index) ProbesKey(sum string) string {
	return x.joinKey("specs", refuseSlash(sum)+ProbesSuffix)
}

// AliasesKey returns the key of a file of aliases, by the sum of its bytes.
func (x Index) AliasesKey(sum string) string {
	return x.joinKey("specs", refuseSlash(sum)+AliasesSuffix)
}

// PutAliases stores a file of aliases and gives the sum that names it.
func (x Index) PutAliases(ctx context.Context, raw []byte) (string, error) {
	return x.putSummed(ctx, x.AliasesKey, raw)
}

// PutProbes stores a file of probe questions and gives the sum that names it.
func (x Index) PutProbes(ctx context.Context, raw []byte) (string, error) {
	return x.putSummed(ctx, x.ProbesKey, raw)
}

// putSummed stores a file under the sum of its bytes, which it gives.
func (x Index) putSummed(ctx context.Context, at func(sum string) string, raw []byte) (string, error) {
	digest := sha256.Sum256(raw)
	sum := hex.EncodeToString(digest[:])
	_, err := blob.Write(ctx, x.Store, at(sum), raw, blob.Cond{})
	return sum, err
}
