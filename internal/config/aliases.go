package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/apr/consolidate"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
)

// Aliases is what the file of aliases of a specification holds, which is sent with the request for a run; the
// specification names its sum then. Nothing where it names none, or an object of a bucket, which the worker reads.
func Aliases(spec *corpus.Spec) ([]byte, error) {
	path := spec.Aliases
	if path == "" || strings.Contains(path, "://") || strings.HasPrefix(path, corpus.AliasesStored) {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		_, err = consolidate.ReadTable(raw)
	}
	if err != nil {
		return nil, fault.BadConfig.At("read aliases", path).
			Because(err).
			Advise("mend the file (indexes." + spec.Index + ".aliases): lines like: pin A | B")
	}
	sum := sha256.Sum256(raw)
	spec.Aliases = corpus.AliasesStored + hex.EncodeToString(sum[:])
	return raw, nil
}
