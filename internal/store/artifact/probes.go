package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// ProbesKey is a file of probe questions, by the sum of its bytes.
func (x Index) ProbesKey(sum string) string { return x.key("specs", single(sum)+".probes.jsonl") }

// PutProbes stores a file of probe questions and gives the sum that names it.
func (x Index) PutProbes(ctx context.Context, raw []byte) (string, error) {
	digest := sha256.Sum256(raw)
	sum := hex.EncodeToString(digest[:])
	return sum, putOnce(ctx, x.Store, x.ProbesKey(sum), bytes.NewReader(raw), int64(len(raw)))
}
