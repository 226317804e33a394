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
)

// MoveImage implements Control. It needs neither the engine nor a worker. Files, keys and the account at a registry are
// those of the user of this process, so only the owner of the installation may ask for it.
func (s *Service) MoveImage(ctx context.Context, r core.ImageRequest) (out core.Transfer, err error) {
	if control.OfAnother(ctx) {
		return out, fault.Forbidden.At(r.Action, r.Index).
			Because("an image is moved with the files and accounts of this machine").
			Advise("run the command where the data directory is, or with a key of scope admin")
	}
	if !core.ValidIndex(r.Index) {
		return out, newNameFault("index", r.Index)
	}
	err = withTempCache(func(cache *localfile.Cache) error {
		mover := image.Mover{
			ImageRequest: r, Operator: control.OperatorOf(ctx), Standings: s.standingOf,
			Ports: &run.Ports{
				Artifacts: s.Stores.Artifacts, Records: s.Stores.Records, Coordination: s.Stores.Coordination,
				Vectors: s.Stores.Vectors, StoreID: s.Stores.StoreID, Cache: cache, CPU: make(chan struct{}, 1),
				Log: slog.Default(),
			},
		}
		out, err = mover.Move(ctx)
		return err
	})
	return out, err
}
