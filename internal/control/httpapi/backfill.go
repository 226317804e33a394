package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// backfills serves what control does about backfills.
func backfills(mux *http.ServeMux, controller control.Control) {
	handle(mux, "backfill", controller.Backfill)
	handle(mux, "backfills", controller.Backfills)
	for name, steer := range map[string]func(context.Context, control.BackfillNamed) error{
		"backfill-pause":  controller.PauseBackfill,
		"backfill-resume": controller.ResumeBackfill,
		"backfill-cancel": controller.CancelBackfill,
	} {
		handle(mux, name, func(ctx context.Context, named control.BackfillNamed) (struct{}, error) {
			return struct{}{}, steer(ctx, named)
		})
	}
}

// Backfill implements control.Control.
func (c *Client) Backfill(ctx context.Context, request control.BackfillRequest) (control.BackfillStarted, error) {
	return call[control.BackfillStarted](ctx, c, "backfill", request)
}

// Backfills implements control.Control.
func (c *Client) Backfills(ctx context.Context, named control.BackfillNamed) ([]core.Backfill, error) {
	return call[[]core.Backfill](ctx, c, "backfills", named)
}

// PauseBackfill implements control.Control.
func (c *Client) PauseBackfill(ctx context.Context, named control.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-pause", named)
	return err
}

// ResumeBackfill implements control.Control.
func (c *Client) ResumeBackfill(ctx context.Context, named control.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-resume", named)
	return err
}

// CancelBackfill implements control.Control.
func (c *Client) CancelBackfill(ctx context.Context, named control.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-cancel", named)
	return err
}
