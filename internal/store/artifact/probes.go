package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ProbesKey is a file of probe questions, by the sum of its bytes.
func (x Index) ProbesKey(sum string) string { return x.key("specs", single(sum)+".probes.jsonl") }

// PutProbes stores a file of probe questions and gives the sum that names it.
func (x Index) PutProbes(ctx context.Context, raw []byte) (string, error) {
	digest := sha256.Sum256(raw)
	sum := hex.EncodeToString(digest[:])
	_, err := blob.Write(ctx, x.Store, x.ProbesKey(sum), raw, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		err = nil
	}
	return sum, err
}
