package config

import (
	"bytes"
	"os"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Probes is what the file of probe questions of a specification holds, which is sent with the request for a run;
// nothing where it names none, or an object of a bucket, which the worker reads.
func Probes(spec core.Spec) ([]byte, error) {
	path := spec.Gate.Probes
	if path == "" || strings.Contains(path, "://") {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		_, err = core.ReadProbes(bytes.NewReader(raw), true)
	}
	if err != nil {
		return nil, fault.BadConfig.At("read probe questions", path).
			Because(err).
			Advise(`write a line {"question": "...", "documents": ["key"]} for each (indexes.` + spec.Index + ".gate.probes)")
	}
	return raw, nil
}
