package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
)

// ReadFiles reads the files of this machine that a specification names, to be sent with a request; the specification
// names their sums then. An object of a bucket is left to the worker.
func ReadFiles(spec *core.Spec) (files core.Files, err error) {
	if files.Probes, err = ReadProbes(spec); err == nil {
		files.Aliases, err = ReadAliases(spec)
	}
	return files, err
}

// ReadAliases reads the file of aliases alone, as ReadFiles does.
func ReadAliases(spec *core.Spec) ([]byte, error) {
	bad := fault.BadConfig.At("read aliases", spec.Aliases).
		Advise("fix the file (indexes." + spec.Index + ".aliases): lines like: pin A | B")
	return readFile(&spec.Aliases, bad, func(raw []byte) error {
		_, err := aliases.ReadTable(raw)
		return err
	})
}

// ReadProbes reads the file of probe questions alone, as ReadFiles does.
func ReadProbes(spec *core.Spec) ([]byte, error) {
	bad := fault.BadConfig.At("read probe questions", spec.Gate.Probes).
		Advise(`write a line {"question": "...", "documents": ["key"]} for each (indexes.` + spec.Index + ".gate.probes)")
	return readFile(&spec.Gate.Probes, bad, func(raw []byte) error {
		_, err := core.ReadProbes(bytes.NewReader(raw), true)
		return err
	})
}

// mostFileBytes of a file that is read whole and sent with a request.
const mostFileBytes = 64 << 20

// readFile reads and checks the file at a path, in whose place it puts the sum.
func readFile(path *string, bad *fault.Error, check func(raw []byte) error) ([]byte, error) {
	if *path == "" || strings.Contains(*path, "://") || strings.HasPrefix(*path, core.SentFile) {
		return nil, nil
	}
	raw, err := readRegular(*path, mostFileBytes+1)
	switch {
	case err != nil:
	case len(raw) > mostFileBytes:
		err = fmt.Errorf("it is larger than %d MiB", mostFileBytes>>20)
	default:
		err = check(raw)
	}
	if err != nil {
		return nil, bad.Because(err)
	}
	sum := sha256.Sum256(raw)
	*path = core.SentFile + hex.EncodeToString(sum[:])
	return raw, nil
}
