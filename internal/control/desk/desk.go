// Package desk does what programs ask of an index over the public API: it builds it, changes its schedule, and writes
// and deletes documents of its corpus. The configuration of an index is that of this process, found as the command
// line finds it; runs are started and steered through the port control.Control.
//
//	desk.go       settings of an index, builds and estimates
//	schedule.go   schedules
//	documents.go  documents of a corpus
package desk

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Corpora opens corpora, and lets runs read those that the owner's configuration names; app.Stores does.
type Corpora interface {
	OpenCorpus(ctx context.Context, uri string) (blob.Store, error)
	GrantCorpora(directory string, keep bool) error
}

// Desk serves the operations of one installation.
type Desk struct {
	Connect   func(ctx context.Context) (control.Control, error) // to who builds and steers
	Config    *config.Config                                     // of this process
	Artifacts blob.Store
	Corpora   Corpora
	MostBytes int64 // of an upload
}

// New returns the desk of an installation.
func New(
	cfg *config.Config, stores *app.Stores, connect func(context.Context) (control.Control, error),
) *Desk {
	return &Desk{
		Connect: connect, Config: cfg, Artifacts: stores.Artifacts, Corpora: stores, MostBytes: cfg.QueryAPI.UploadBytes,
	}
}

// Conflict is the error of a request that a run stands in the way of.
type Conflict struct {
	Run string // index/generation
	Err error
}

// Error implements error.
func (c *Conflict) Error() string { return c.Err.Error() }

// Unwrap returns what was refused.
func (c *Conflict) Unwrap() error { return c.Err }

// StartBuild starts a build of an index, or joins the one that runs with the same configuration, which takes the place
// of that of the request. A run that stands in the way is a Conflict.
func (d *Desk) StartBuild(ctx context.Context, index string, request control.IndexRequest) (control.Run, error) {
	controller, err := d.prepareBuild(ctx, index, &request)
	if err != nil {
		return control.Run{}, err
	}
	run, err := controller.BuildIndex(control.ForAnother(ctx), request)
	return run, asConflict(ctx, controller, index, err)
}

// EstimateBuild returns what a build would do and cost. It takes nothing.
func (d *Desk) EstimateBuild(ctx context.Context, index string, request control.IndexRequest) (core.Report, error) {
	controller, err := d.prepareBuild(ctx, index, &request)
	if err != nil {
		return core.Report{}, err
	}
	out, err := controller.EstimateBuild(control.ForAnother(ctx), request)
	return out.Report, err
}

// prepareBuild connects, and gives a request the configuration of the index.
func (d *Desk) prepareBuild(
	ctx context.Context, index string, request *control.IndexRequest,
) (control.Control, error) {
	controller, err := d.Connect(ctx)
	if err != nil {
		return nil, err
	}
	found, err := d.readSettings(ctx, index, nil)
	if err != nil {
		return nil, err
	}
	request.Spec, request.Priority = found.spec, found.priority
	return controller, request.ReadFiles()
}

// RetryFailed asks again for dead letters of the published generation; none are named: for all that are not discarded.
// A run without a name: nothing failed.
func (d *Desk) RetryFailed(ctx context.Context, index string, chunks []string) (control.Run, error) {
	controller, err := d.Connect(ctx)
	if err != nil {
		return control.Run{}, err
	}
	run, err := controller.RetryFailed(ctx, control.LettersRequest{Name: index, Chunks: chunks})
	return run, asConflict(ctx, controller, index, err)
}

// asConflict names the build in the way of a request that was refused for one.
func asConflict(ctx context.Context, controller control.Control, index string, err error) error {
	if !fault.Is(err, fault.LeaseHeld) {
		return err
	}
	status, unread := controller.ReadStatus(ctx, index) // the refusal is what counts
	if unread != nil || core.IsTerminal(status.Status) || runlog.Summarize(status).Kind != runlog.KindBuild {
		return &Conflict{"", err}
	}
	return &Conflict{status.Run, err}
}

// settings are what the configuration says of an index.
type settings struct {
	spec     core.Spec
	schedule config.Schedule
	priority control.Priority
	base     string // of a branch, whose corpus it may read; empty: the configuration names one for it
}

// readSettings resolves the configuration of an index, with further settings by their paths below the index. An index
// that the configuration does not name is built as its published generation was.
func (d *Desk) readSettings(ctx context.Context, index string, set map[string]string) (out settings, err error) {
	plain, err := d.Config.LoadAgain()
	if err != nil {
		return out, err
	}
	overlay, base, err := release.OverlayOf(ctx, artifact.Index{Store: d.Artifacts, Name: index})
	if err != nil {
		return out, err
	}
	_, named := plain.Indexes[index]
	if overlay.Base == "" {
		overlay.Set = plain.FindMissing(overlay)
	}
	cfg := plain
	if overlay.Base != "" || len(overlay.Set)+len(set) > 0 {
		if cfg, err = d.Config.LoadAgain(overlay, core.Overlay{Index: index, Set: set}); err != nil {
			return out, err
		}
	}
	out.schedule, out.priority = cfg.Indexes[index].Schedule, control.Priority(cfg.Priority(index))
	if out.spec, err = cfg.Spec(index, ""); err != nil {
		return out, err
	}
	_, moved := overlay.Set["corpus"]
	own := out.spec.Corpus != "" && !moved
	if plain.Indexes[index].Corpus == "" { // whatever a branch is set to, its base may have been promoted to it
		out.base = overlay.Base
	}
	out.spec.Corpus = cmp.Or(out.spec.Corpus, base)
	if overlay.Base != "" || len(overlay.Set) > 0 {
		named, out.spec.Overlay = named || overlay.Base != "", overlay.Set
	}
	if !named || out.spec.Corpus == "" {
		stored, err := d.readPublished(ctx, index)
		if err != nil {
			return out, err
		}
		if !named {
			out.spec = stored
		}
		out.spec.Corpus = stored.Corpus
	}
	if err := MakeAbsolute(&out.spec); err != nil {
		return out, err
	}
	if own && named && !isURL(out.spec.Corpus) { // the owner of this process names it: no other request of a desk grants
		err = d.Corpora.GrantCorpora(out.spec.Corpus, true)
	}
	return out, err
}

// readPublished returns what the published generation of an index was built with. That of a copy is refused, as is what
// an image brought.
func (d *Desk) readPublished(ctx context.Context, index string) (core.Spec, error) {
	of := artifact.Index{Store: d.Artifacts, Name: index}
	pointer, _, err := of.ReadPointer(ctx)
	if err == nil && pointer.Manifest == "" {
		err = fault.UnknownIndex.At("find the configuration of", index).
			Because("the configuration of this server names no corpus for it, and no generation of it is published").
			Advise("set indexes." + index + ".corpus in the configuration of this server")
	}
	if err != nil {
		return core.Spec{}, err
	}
	manifest, err := of.ManifestOf(ctx, pointer)
	if err != nil {
		return core.Spec{}, err
	}
	spec, err := of.Spec(ctx, manifest.Spec)
	spec.Index = index
	return spec, cmp.Or(err, run.RefusePulled(ctx, of), run.RefuseImageSpec(spec))
}

func isURL(place string) bool { return strings.Contains(place, "://") }

// MakeAbsolute makes the paths of a specification absolute: who reads them may have another working directory.
func MakeAbsolute(spec *core.Spec) error {
	absolute := func(path string) (string, error) {
		if path == "" || isURL(path) {
			return path, nil
		}
		out, err := filepath.Abs(path)
		if err != nil {
			err = fault.Usage.At("make absolute", path).Because(err)
		}
		return out, err
	}
	for role, chat := range spec.Roles {
		file, err := absolute(chat.File)
		if err != nil {
			return err
		}
		chat.File = file
		spec.Roles[role] = chat
	}
	for _, path := range []*string{&spec.Corpus, &spec.Chat.File} {
		out, err := absolute(*path)
		if err != nil {
			return err
		}
		*path = out
	}
	return nil
}
