package unit

import (
	"bytes"
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// ReadProbes reads the probe questions of the configuration; none where it has none. What is wrong with them is known
// before anything is paid for.
func (r *Run) ReadProbes(ctx context.Context) ([]core.Question, error) {
	where := r.Settings.Gate.Probes
	if where == "" {
		return nil, nil
	}
	bad := fault.BadConfig.At("read probe questions", where).
		Advise(`write a line {"question": "...", "documents": ["key"]} for each; or set gate.probes to another file`)
	raw, err := r.readSent(ctx, where, r.Index.ProbesKey, core.MaxProbeBytes, bad)
	if err != nil {
		return nil, err
	}
	probes, err := core.ReadProbes(bytes.NewReader(raw), true)
	if err != nil {
		return nil, bad.Because(err)
	}
	for i := range probes {
		probes[i].Labels = []string{core.AnyLabel}
	}
	return probes, nil
}
