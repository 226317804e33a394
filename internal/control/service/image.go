package service

import (
	"context"
	"log/slog"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// MoveImage implements Control. It needs neither the engine nor a worker. Files, keys and the account at a registry are
// those of the user of this process, so only the owner of the installation may ask for it.
func (s *Service) MoveImage(
	ctx context.Context, r control.ImageRequest, report func(core.Transfer),
) (out core.Transfer, err error) {
	if control.OfAnother(ctx) {
		return out, fault.Forbidden.At(r.Action, r.Index).
			Because("an image is moved with the files and accounts of this machine").
			Advise("run the command where the data directory is, or with a key of scope admin")
	}
	if !core.ValidIndex(r.Index) {
		return out, newNameFault("index", r.Index)
	}
	where := oci.Options{Where: r.Where, Tag: r.Tag, PlainHTTP: r.PlainHTTP}
	meter := &image.Meter{Report: report}
	if r.Action == core.TransferPush {
		in := image.Pushing{Index: s.indexOf(r.Index), Generation: r.Generation, To: where, Meter: meter}
		if r.Key != "" {
			if in.Key, err = image.ReadSigningKey(r.Key); err != nil {
				return out, err
			}
		}
		return image.Push(ctx, in)
	}
	in := image.Pulling{
		Index: r.Index, From: where, Adopt: r.Adopt, Force: r.Force, Operator: control.OperatorOf(ctx),
		Standings: s.standingOf, Meter: meter,
	}
	if r.Key != "" {
		if in.Key, err = image.ReadVerifyingKey(r.Key); err != nil {
			return out, err
		}
	}
	err = withTempCache(func(cache *localfile.Cache) error {
		in.Ports = &run.Ports{
			Artifacts: s.Stores.Artifacts, Records: s.Stores.Records, Coordination: s.Stores.Coordination,
			Vectors: s.Stores.Vectors, StoreID: s.Stores.StoreID, Cache: cache, CPU: make(chan struct{}, 1),
			Log: slog.Default(),
		}
		out, err = image.Pull(ctx, in)
		return err
	})
	return out, err
}
