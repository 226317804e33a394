package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
)

// Aliases is what the file of aliases of a specification holds, which is sent with the request for a run; the
// specification names its sum then. Nothing where it names none, or an object of a bucket, which the worker reads.
func Aliases(spec *core.Spec) ([]byte, error) {
	path := spec.Aliases
	if path == "" || strings.Contains(path, "://") || strings.HasPrefix(path, core.AliasesStored) {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		_, err = aliases.ReadTable(raw)
	}
	if err != nil {
		return nil, fault.BadConfig.At("read aliases", path).
			Because(err).
			Advise("mend the file (indexes." + spec.Index + ".aliases): lines like: pin A | B")
	}
	sum := sha256.Sum256(raw)
	spec.Aliases = core.AliasesStored + hex.EncodeToString(sum[:])
	return raw, nil
}
