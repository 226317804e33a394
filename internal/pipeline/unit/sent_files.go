package unit

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// readAliases reads the table of names that the configuration names; nil where it names none.
func (r *Run) readAliases(ctx context.Context) (core.Aliases, error) {
	where := r.Settings.Aliases
	if where == "" {
		return nil, nil
	}
	bad := fault.BadConfig.At("read aliases", where).
		Advise("write lines like: pin A | B; or set indexes." + r.Settings.Index + ".aliases to another file")
	raw, err := r.readSent(ctx, where, r.Index.AliasesKey, core.MaxAliasBytes, bad)
	if err != nil {
		return nil, err
	}
	table, err := aliases.ReadTable(raw)
	if err != nil {
		return nil, bad.Because(err)
	}
	return table, nil
}

// readSent reads a file that was sent with the run, and lies in the artifacts under a sum, or an object of a bucket.
// bad is what is said of an address that is neither, of one where nothing is, and of what is too large.
func (r *Run) readSent(
	ctx context.Context, where string, at func(sum string) string, most int64, bad *fault.Error,
) ([]byte, error) {
	const sends = "unweaver index and unweaver schedule apply send the file: run the command again"
	store, key := r.Artifacts, ""
	sum, sent := strings.CutPrefix(where, core.SentFile)
	if sent {
		key = at(sum)
	} else {
		end := strings.LastIndex(where, "/") + 1
		if !strings.Contains(where, "://") || end == len(where) {
			return nil, bad.Because("it is neither an object of a bucket nor a file sent with the run").Advise(sends)
		}
		folder, err := r.Corpora(ctx, where[:end])
		if err != nil {
			return nil, err
		}
		store, key = folder, where[end:]
	}
	info, err := store.Stat(ctx, key)
	if err == nil && info.Size > most {
		return nil, bad.Because(fmt.Sprintf("it has %d bytes; the limit is %d", info.Size, most))
	}
	var raw []byte
	if err == nil {
		raw, _, err = blob.Read(ctx, store, key)
	}
	if fault.Is(err, fault.NotFound) {
		if sent {
			bad = bad.Advise(sends)
		}
		return nil, bad.Because("the object does not exist")
	}
	return raw, err
}

// FixAliases fixes the aliases of a run, and finds the documents of a parent that name what is mapped otherwise now;
// nil: there are none, or everything is made anyway. A round of retry-failed, a purge and a build of hinted objects
// keep the parent's.
func (r *Run) FixAliases(
	ctx context.Context, fixed *run.Plan, parent *core.Manifest,
) (renamed func(key string) bool, err error) {
	if fixed.Aliases, err = r.readAliases(ctx); err != nil {
		return nil, err
	}
	if parent != nil && (r.Attempt > 0 || fixed.Purge != "" || core.IsHinted(r.Generation)) {
		fixed.Aliases = parent.Aliases
	}
	fixed.Renaming = run.Renaming{Names: len(fixed.Aliases)}
	if parent == nil {
		return nil, nil
	}
	changed := fixed.Aliases.DiffKeys(parent.Aliases)
	fixed.Renaming.Changed = len(changed)
	if len(changed) == 0 || !fixed.Part {
		return nil, nil
	}
	table, err := r.OpenTable(ctx, parent)
	if err != nil {
		return nil, err
	}
	defer table.Release()
	classes := map[core.ID]bool{}
	for _, key := range changed {
		classes[core.ClassID(parent.Aliases.ResolveKey(key))] = true
	}
	documents := map[string]bool{}
	for key := range table.DocumentsNaming(classes) {
		documents[key] = true
		if len(documents)%1000 == 0 {
			r.Progress.Touch()
		}
	}
	fixed.Renaming.Documents = len(documents)
	return func(key string) bool { return documents[key] }, nil
}

// withNames returns the settings with the aliases that the run fixed.
func (r *Run) withNames(ctx context.Context) (core.Spec, error) {
	settings := r.Settings
	fixed, err := r.ReadPlan(ctx)
	settings.Names = fixed.Aliases
	return settings, err
}

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
