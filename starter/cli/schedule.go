package cli

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
)

func (a *App) scheduleCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "schedule",
		Short: "Have indexes built by the clock: make, list, pause, resume, trigger and delete schedules",
		Long: `Have indexes built by the clock, as indexes.*.schedule says: cron in a time zone, whose summer time counts. A
night takes the configuration that was applied last. It pays and publishes as index does.`,
	}
	command.AddCommand(
		a.scheduleApplyCmd(),
		a.scheduleListCmd(),
		a.scheduleSteerCmd("pause", "Let no night begin until it is resumed; a run that goes on is not touched",
			func(ctx context.Context, controller control.Control, index, note string) (string, error) {
				return "paused", controller.PauseSchedule(ctx, index, note)
			}),
		a.scheduleSteerCmd("resume", "Let nights begin again; what was due meanwhile is not made up for",
			func(ctx context.Context, controller control.Control, index, note string) (string, error) {
				return "resumed", controller.ResumeSchedule(ctx, index, note)
			}),
		a.scheduleSteerCmd("trigger", "Begin a night now, also of a paused schedule; not beside a build of the index",
			func(ctx context.Context, controller control.Control, index, _ string) (string, error) {
				triggered, err := controller.TriggerSchedule(ctx, index)
				if triggered.Running != "" {
					return "nothing was begun: run " + triggered.Running + " builds it", err
				}
				return "a night begins", err
			}),
		a.scheduleSteerCmd("delete", "Delete a schedule; a run that goes on is not touched",
			func(ctx context.Context, controller control.Control, index, _ string) (string, error) {
				return "deleted", controller.DeleteSchedule(ctx, index)
			}),
	)
	return command
}

func (a *App) scheduleApplyCmd() *cobra.Command {
	var index, file string
	command := &cobra.Command{
		Use:   "apply",
		Short: "Make the schedules that the configuration says",
		Long: `Make the schedules that the configuration says, of all indexes with a schedule.cron. Applied again it changes
what changed and nothing else; a paused schedule stays paused. A missed night may begin as late as schedule.catchup
says, and at least as late as the longest of the last runs took.`,
		Example: "  unweaver schedule apply -f unweaver.yaml\n  unweaver schedule apply --index docs",
		Args:    requireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			if file != "" {
				a.configPath = file
			}
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
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
				return a.printOut(map[string]any{"schedules": applied}, func(w io.Writer) {
					for _, one := range applied {
						fmt.Fprintf(w, "%s: %s; %s\n", one.Index, one.Change, nextNight(one.Paused, one.Next))
					}
				})
			})
		},
	}
	command.Flags().StringVar(&index, "index", "", "this index alone")
	command.Flags().StringVarP(&file, "file", "f", "", "configuration file, as --config")
	return command
}

// readSchedules returns what the configuration says of all schedules, or of one.
func (a *App) readSchedules(
	ctx context.Context, controller control.Control, index string,
) ([]control.ScheduleRequest, error) {
	if index != "" { // it may be a branch, which the configuration does not name
		if _, err := a.applyOverlays(ctx, controller, index); err != nil {
			return nil, err
		}
	}
	cfg, err := a.loadConfig()
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
		spec, err := a.specOf(ctx, controller, name, "")
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
			Advise("set it, or remove a schedule with: unweaver schedule delete INDEX")
	}
	return out, nil
}

// nextNight says when the next night begins.
func nextNight(paused bool, next []time.Time) string {
	switch {
	case paused:
		return "paused"
	case len(next) == 0:
		return "no night follows"
	}
	return "next " + next[0].UTC().Format("2006-01-02 15:04 MST")
}

func (a *App) scheduleListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List schedules: the next nights, what the last ones came to, which were skipped and why",
		Example: "  unweaver schedule list\n  unweaver schedule list --json",
		Args:    requireArgs(0, 0, "no argument"),
		RunE: a.newControlRun(func(ctx context.Context, controller control.Control, _ []string) error {
			schedules, err := controller.ListSchedules(ctx)
			if err != nil {
				return err
			}
			return a.printOut(map[string]any{"schedules": schedules}, func(w io.Writer) {
				for _, one := range schedules {
					showSchedule(w, one)
				}
				if len(schedules) == 0 {
					fmt.Fprintln(w, "no schedules; make them with: unweaver schedule apply")
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
		parts = append(parts, fmt.Sprintf("%d later than catchup", one.Missed))
	}
	if one.Overlapped > 0 {
		parts = append(parts, fmt.Sprintf("%d as the one before went on", one.Overlapped))
	}
	if len(parts) > 0 {
		fmt.Fprintf(w, "  never begun: %s\n", strings.Join(parts, ", "))
	}
}

// scheduleSteerCmd returns a command that does one thing to a schedule.
func (a *App) scheduleSteerCmd(
	name, short string,
	steer func(ctx context.Context, controller control.Control, index, note string) (done string, err error),
) *cobra.Command {
	command := &cobra.Command{
		Use:     name + " INDEX",
		Short:   short,
		Long:    short + ".",
		Example: "  unweaver schedule " + name + " docs",
		Args:    requireArgs(1, 1, "an INDEX"),
		RunE: func(command *cobra.Command, args []string) error {
			if !core.ValidIndex(args[0]) {
				return fault.InvalidParam.At("name index", fault.QuoteName(args[0])).
					Because("it is no name of an index").
					Advise("see: unweaver schedule list")
			}
			return a.withControl(command.Context(), func(ctx context.Context, controller control.Control, _ string) error {
				done, err := steer(ctx, controller, args[0], a.reason)
				if err != nil {
					return err
				}
				return a.printOut(map[string]string{"index": args[0], "done": done}, func(w io.Writer) {
					fmt.Fprintf(w, "%s: %s\n", args[0], done)
				})
			})
		},
	}
	if name == "trigger" { // a night is a run, which records it
		return command
	}
	return a.addAuditFlags(command)
}
