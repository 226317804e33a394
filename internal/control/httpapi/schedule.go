package httpapi

import (
	"context"
	"net/http"

	"github.com/unweaver/unweaver/internal/control"
)

type noted struct {
	Index string `json:"index"`
	Note  string `json:"note,omitempty"`
}

// schedules serves what control does about schedules.
func schedules(mux *http.ServeMux, controller control.Control) {
	handle(mux, "schedule-apply", controller.ApplySchedule)
	handle(mux, "schedules", func(ctx context.Context, _ struct{}) ([]control.Scheduled, error) {
		return controller.Schedules(ctx)
	})
	handle(mux, "schedule-pause", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, controller.PauseSchedule(ctx, in.Index, in.Note)
	})
	handle(mux, "schedule-resume", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, controller.ResumeSchedule(ctx, in.Index, in.Note)
	})
	handle(mux, "schedule-trigger", func(ctx context.Context, in noted) (control.Triggered, error) {
		return controller.TriggerSchedule(ctx, in.Index)
	})
	handle(mux, "schedule-delete", func(ctx context.Context, in noted) (struct{}, error) {
		return struct{}{}, controller.DeleteSchedule(ctx, in.Index)
	})
}

// ApplySchedule implements control.Control.
func (c *Client) ApplySchedule(ctx context.Context, request control.ScheduleRequest) (control.Applied, error) {
	return call[control.Applied](ctx, c, "schedule-apply", request)
}

// Schedules implements control.Control.
func (c *Client) Schedules(ctx context.Context) ([]control.Scheduled, error) {
	return call[[]control.Scheduled](ctx, c, "schedules", struct{}{})
}

// PauseSchedule implements control.Control.
func (c *Client) PauseSchedule(ctx context.Context, index, note string) error {
	_, err := call[struct{}](ctx, c, "schedule-pause", noted{index, note})
	return err
}

// ResumeSchedule implements control.Control.
func (c *Client) ResumeSchedule(ctx context.Context, index, note string) error {
	_, err := call[struct{}](ctx, c, "schedule-resume", noted{index, note})
	return err
}

// TriggerSchedule implements control.Control.
func (c *Client) TriggerSchedule(ctx context.Context, index string) (control.Triggered, error) {
	return call[control.Triggered](ctx, c, "schedule-trigger", noted{Index: index})
}

// DeleteSchedule implements control.Control.
func (c *Client) DeleteSchedule(ctx context.Context, index string) error {
	_, err := call[struct{}](ctx, c, "schedule-delete", noted{Index: index})
	return err
}
