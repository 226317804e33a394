package runs

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func (a app) scheduleCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "schedule",
		Short: "Build indexes on a schedule: apply, list, pause, resume, trigger and delete schedules",
		Long: `Build indexes on a schedule, set by indexes.*.schedule: cron in a time zone, with its summer time. A
scheduled run uses the configuration that was last applied. It pays and publishes as index does.`,
	}
	command.AddCommand(
		a.scheduleApplyCmd(),
		a.scheduleListCmd(),
		a.scheduleSteerCmd("pause", "Pause a schedule: no run starts until you resume it; a running run continues",
			func(ctx context.Context, controller control.Control, index, note string) (string, error) {
				return "paused", controller.PauseSchedule(ctx, index, note)
			}),
		a.scheduleSteerCmd("resume", "Resume a schedule; runs that were due during the pause are not made up for",
			func(ctx context.Context, controller control.Control, index, note string) (string, error) {
				return "resumed", controller.ResumeSchedule(ctx, index, note)
			}),
		a.scheduleSteerCmd("trigger", "Start a scheduled run now, even of a paused schedule; not during a build of the index",
			func(ctx context.Context, controller control.Control, index, _ string) (string, error) {
				triggered, err := controller.TriggerSchedule(ctx, index)
				if triggered.Running != "" {
					return "nothing started: run " + triggered.Running + " is building the index", err
				}
				return "a scheduled run starts", err
			}),
		a.scheduleSteerCmd("delete", "Delete a schedule; a running run continues",
			func(ctx context.Context, controller control.Control, index, _ string) (string, error) {
				return "deleted", controller.DeleteSchedule(ctx, index)
			}),
	)
	return command
}

func (a app) scheduleApplyCmd() *cobra.Command {
	var index, file string
	command := &cobra.Command{
		Use:   "apply",
		Short: "Create or update the configured schedules",
		Long: `Create or update the schedules of all indexes that have a schedule.cron. To apply it again changes
only what differs; a paused schedule stays paused. A missed run may start as late as schedule.catchup
says, and at least as late as the longest of the last runs took.`,
		Example: "  unweaver schedule apply -f unweaver.yaml\n  unweaver schedule apply --index docs",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			if file != "" {
				a.ConfigPath = file
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				requests, err := a.readSchedules(ctx, controller, index)
				if err != nil {
					return err
				}
				applied := []control.Applied{}
				for _, request := range requests {
					one, err := controller.ApplySchedule(ctx, request)
					if err != nil {
						return err
					}
					applied = append(applied, one)
				}
				return a.PrintOut(map[string]any{"schedules": applied}, func(w io.Writer) {
					for _, one := range applied {
						fmt.Fprintf(w, "%s: %s; %s\n", one.Index, one.Change, nextNight(one.Paused, one.Next))
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "only this index")
	command.Flags().StringVarP(&file, "file", "f", "", "configuration file, same as --config")
	return console.PutIndexFirst(command, false)
}

// readSchedules returns what the configuration says of all schedules, or of one.
func (a app) readSchedules(
	ctx context.Context, controller control.Control, index string,
) ([]control.ScheduleRequest, error) {
	if index != "" { // it may be a branch, which the configuration does not name
		if _, _, err := a.ApplyOverlay(ctx, controller, index); err != nil {
			return nil, err
		}
	}
	cfg, err := a.LoadConfig()
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(cfg.Indexes))
	if index != "" {
		names = []string{index}
	}
	var out []control.ScheduleRequest
	for _, name := range names {
		schedule := cfg.Indexes[name].Schedule
		if schedule.Cron == "" {
			continue
		}
		spec, err := a.SpecOf(ctx, controller, name, "")
		if err != nil {
			return nil, err
		}
		files, err := config.ReadFiles(&spec)
		if err != nil {
			return nil, err
		}
		out = append(out, control.ScheduleRequest{
			Files: files, Spec: spec, Schedule: schedule, Priority: control.Priority(cfg.Priority(name)),
		})
	}
	if len(out) == 0 {
		what := "indexes.*.schedule.cron"
		if index != "" {
			what = "indexes." + index + ".schedule.cron"
		}
		return nil, fault.Usage.At("apply schedules", index).
			Because("the configuration has none: " + what + " is not set").
			Advise("set it, or delete a schedule: unweaver schedule delete INDEX")
	}
	return out, nil
}

// nextNight says when the next night begins.
func nextNight(paused bool, next []time.Time) string {
	switch {
	case paused:
		return "paused"
	case len(next) == 0:
		return "no run is due"
	}
	return "next " + next[0].UTC().Format("2006-01-02 15:04 MST")
}

func (a app) scheduleListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List schedules: next runs, results of the last runs, skipped runs and why",
		Example: "  unweaver schedule list\n  unweaver schedule list --json",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: a.NewControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			schedules, err := controller.ListSchedules(ctx)
			if err != nil {
				return err
			}
			return a.PrintOut(map[string]any{"schedules": schedules}, func(w io.Writer) {
				for _, one := range schedules {
					showSchedule(w, one)
				}
				if len(schedules) == 0 {
					fmt.Fprintln(w, "no schedules; to create them: unweaver schedule apply")
				}
			})
		}),
	}
}

func showSchedule(w io.Writer, one control.Scheduled) {
	fmt.Fprintf(w, "%s  %s", one.Index, nextNight(one.Paused, one.Next))
	if one.Note != "" {
		fmt.Fprintf(w, " (%s)", one.Note)
	}
	fmt.Fprintf(w, "  %s, as late as %s\n", one.Timezone, time.Duration(one.Catchup))
	for _, night := range one.Nights {
		fmt.Fprintf(w, "  %s  %s", night.Due.UTC().Format("2006-01-02 15:04"), night.Status)
		if night.Run != "" {
			fmt.Fprintf(w, "  %s", night.Run)
		}
		if night.By != "" {
			fmt.Fprintf(w, ": run %s was building it", night.By)
		} else if night.Reason != "" {
			fmt.Fprintf(w, ": %s", night.Reason)
		}
		fmt.Fprintln(w)
	}
	var parts []string
	if one.Missed > 0 {
		parts = append(parts, fmt.Sprintf("%d missed by more than catchup", one.Missed))
	}
	if one.Overlapped > 0 {
		parts = append(parts, fmt.Sprintf("%d because the previous run was still running", one.Overlapped))
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "  skipped: %s\n", strings.Join(parts, ", "))
	}
}

// scheduleSteerCmd returns a command that does one thing to a schedule.
func (a app) scheduleSteerCmd(
	name, short string,
	steer func(ctx context.Context, controller control.Control, index, note string) (done string, err error),
) *cobra.Command {
	command := &cobra.Command{
		Use:     name + " INDEX",
		Short:   short,
		Long:    short + ".",
		Example: "  unweaver schedule " + name + " docs",
		Args:    console.RequireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			if !core.ValidIndex(args[0]) {
				return fault.InvalidParam.At("name index", fault.QuoteName(args[0])).
					Because("it is not a valid index name").
					Advise("to list schedules: unweaver schedule list")
			}
			return a.WithControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				done, err := steer(ctx, controller, args[0], a.Reason)
				if err != nil {
					return err
				}
				return a.PrintOut(map[string]string{"index": args[0], "done": done}, func(w io.Writer) {
					fmt.Fprintf(w, "%s: %s\n", args[0], done)
				})
			})
		},
	}
	if name == "trigger" { // a night is a run, which records it
		return command
	}
	return a.AddAuditFlags(command)
}
