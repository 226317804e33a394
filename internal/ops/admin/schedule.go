package admin

import (
	"context"
	"net/http"

	ops "github.com/unweaver/unweaver/internal/ops/port"
)

type noted struct {
	Index string `json:"index"`
	Note  string `json:"note,omitempty"`
}

// schedules serves what control does about schedules.
func schedules(mux *http.ServeMux, control ops.Control) {
	handle(mux, "schedule-apply", control.ApplySchedule)
	handle(mux, "schedules", func(ctx context.Context, _ struct{}) ([]ops.Scheduled, error) {
		return control.Schedules(ctx)
	})
	handle(mux, "schedule-pause", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, control.PauseSchedule(ctx, in.Index, in.Note)
	})
	handle(mux, "schedule-resume", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, control.ResumeSchedule(ctx, in.Index, in.Note)
	})
	handle(mux, "schedule-trigger", func(ctx context.Context, in noted) (ops.Triggered, error) {
		return control.TriggerSchedule(ctx, in.Index)
	})
	handle(mux, "schedule-delete", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, control.DeleteSchedule(ctx, in.Index)
	})
}

// ApplySchedule implements ops.Control.
func (c *Client) ApplySchedule(ctx context.Context, request ops.ScheduleRequest) (ops.Applied, error) {
	return call[ops.Applied](ctx, c, "schedule-apply", request)
}

// Schedules implements ops.Control.
func (c *Client) Schedules(ctx context.Context) ([]ops.Scheduled, error) {
	return call[[]ops.Scheduled](ctx, c, "schedules", struct{}{})
}

// PauseSchedule implements ops.Control.
func (c *Client) PauseSchedule(ctx context.Context, index, note string) error {
	_, err := call[struct{}](ctx, c, "schedule-pause", noted{index, note})
	return err
}

// ResumeSchedule implements ops.Control.
func (c *Client) ResumeSchedule(ctx context.Context, index, note string) error {
	_, err := call[struct{}](ctx, c, "schedule-resume", noted{index, note})
	return err
}

// TriggerSchedule implements ops.Control.
func (c *Client) TriggerSchedule(ctx context.Context, index string) (ops.Triggered, error) {
	return call[ops.Triggered](ctx, c, "schedule-trigger", noted{Index: index})
}

// DeleteSchedule implements ops.Control.
func (c *Client) DeleteSchedule(ctx context.Context, index string) error {
	_, err := call[struct{}](ctx, c, "schedule-delete", noted{Index: index})
	return err
}
