package admin

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/corpus"
	ops "github.com/unweaver/unweaver/internal/ops/port"
)

// backfills serves what control does about backfills.
func backfills(mux *http.ServeMux, control ops.Control) {
	handle(mux, "backfill", control.Backfill)
	handle(mux, "backfills", control.Backfills)
	for name, steer := range map[string]func(context.Context, ops.BackfillNamed) error{
		"backfill-pause":  control.PauseBackfill,
		"backfill-resume": control.ResumeBackfill,
		"backfill-cancel": control.CancelBackfill,
	} {
		handle(mux, name, func(ctx context.Context, named ops.BackfillNamed) (struct{}, error) {
			return struct{}{}, steer(ctx, named)
		})
	}
}

// Backfill implements ops.Control.
func (c *Client) Backfill(ctx context.Context, request ops.BackfillRequest) (ops.BackfillStarted, error) {
	return call[ops.BackfillStarted](ctx, c, "backfill", request)
}

// Backfills implements ops.Control.
func (c *Client) Backfills(ctx context.Context, named ops.BackfillNamed) ([]corpus.Backfill, error) {
	return call[[]corpus.Backfill](ctx, c, "backfills", named)
}

// PauseBackfill implements ops.Control.
func (c *Client) PauseBackfill(ctx context.Context, named ops.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-pause", named)
	return err
}

// ResumeBackfill implements ops.Control.
func (c *Client) ResumeBackfill(ctx context.Context, named ops.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-resume", named)
	return err
}

// CancelBackfill implements ops.Control.
func (c *Client) CancelBackfill(ctx context.Context, named ops.BackfillNamed) error {
	_, err := call[struct{}](ctx, c, "backfill-cancel", named)
	return err
}
