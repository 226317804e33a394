package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) keysCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "keys",
		Short: "Create, list, rotate and revoke API keys of query-api",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(a.createKeyCmd(), a.listKeysCmd(), a.rotateKeyCmd(), a.revokeKeyCmd())
	return command
}

// reportKeys asks the keeper of keys for one thing, and prints it.
func reportKeys[T any](
	a app, command *cobra.Command, ask func(context.Context, access.Keeper) (T, error), show func(io.Writer, T),
) error {
	return a.WithKeys(command.Context(), func(keys access.Keeper) error {
		found, err := ask(command.Context(), keys)
		if err != nil {
			return err
		}
		return a.PrintOut(found, func(w io.Writer) { show(w, found) })
	})
}

func (a app) createKeyCmd() *cobra.Command {
	request := access.Request{}
	var scope string
	command := &cobra.Command{
		Use:     "create",
		Short:   "Create an API key, which is shown only once",
		Example: "  unweaver keys create --name frontend --index docs --expires 90d",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			request.Scope = access.Scope(scope)
			if err := request.Validate(); err != nil { // what JSON cannot carry would say less
				return err
			}
			return reportKeys(a, command, func(ctx context.Context, keys access.Keeper) (access.Made, error) {
				return keys.CreateKey(ctx, request)
			}, showMade)
		},
	}
	set := command.Flags()
	set.StringVar(&request.Name, "name", "", "what it is for")
	set.StringVar(&scope, "scope", "query", "query, operate (also readiness, metrics, control) or admin (also keys)")
	set.StringVar(&request.Index, "index", "*", "index that the key may read, or a pattern with * and ?")
	set.StringSliceVar(&request.Labels, "labels", nil,
		"labels of documents that the key may read besides public ones; * for every document")
	set.Var((*span)(&request.Expires), "expires", "validity, such as 90d or 36h; 0: until it is revoked")
	limits := &request.Limits
	set.Float64Var(&limits.RequestsPerSecond, "rate", 0, "requests a second; 0, here and in the next flags: as configured")
	set.IntVar(&limits.Burst, "burst", 0, "burst of requests after a pause, with --rate")
	set.IntVar(&limits.Concurrency, "concurrency", 0, "concurrent requests")
	set.Float64Var(&limits.AnswersPerMinute, "answers-per-minute", 0, "questions that are answered, also by a quotation")
	set.Float64Var(&limits.MoneyPerDay, "money-per-day", 0, "money for answers, by the model's price")
	return command
}

// span is a flag that takes a duration, also in days.
type span time.Duration

// String implements pflag.Value.
func (s *span) String() string { return time.Duration(*s).String() }

// Type implements pflag.Value.
func (*span) Type() string { return "duration" }

// Set implements pflag.Value.
func (s *span) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		count, err := strconv.Atoi(days)
		if err != nil || count < 0 || count > 36_500 {
			return errors.New("want whole days from 0d to 36500d")
		}
		*s = span(time.Duration(count) * 24 * time.Hour)
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a duration such as 90d, 36h or 30m")
	}
	*s = span(parsed)
	return nil
}

func showMade(w io.Writer, made access.Made) {
	fmt.Fprintf(w, "%s\n\nkey %s: scope %s, indexes %s, expires %s\n", made.Text, made.Key.ID, made.Key.Scope,
		made.Key.Index, formatMoment(made.Key.Expires))
	if made.Key.Labels != nil {
		fmt.Fprintln(w, "It reads documents with the labels "+core.ReadersOf(made.Key.Labels).Describe()+", and public ones.")
	}
	fmt.Fprintln(w, "It cannot be shown again: store it with your secrets.")
	if made.Warning != "" {
		fmt.Fprintln(w, "Warning: "+made.Warning+".")
	}
}

func formatMoment(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05")
}

func (a app) listKeysCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List API keys, expired and revoked ones included",
		Args:  console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return reportKeys(a, command, func(ctx context.Context, keys access.Keeper) (keyList, error) {
				list, err := keys.ListKeys(ctx)
				return keyList{list}, err
			}, showKeys)
		},
	}
}

type keyList struct {
	Keys []access.Key `json:"keys"`
}

func showKeys(w io.Writer, list keyList) {
	header := "id\tstate\tscope\tindexes\tcreated\texpires\tlabels\tname"
	show.Table(w, header, list.Keys, func(key access.Key) string {
		return strings.Join([]string{
			key.ID, key.StateAt(time.Now()), string(key.Scope), key.Index, formatMoment(&key.Created),
			formatMoment(key.Expires), core.ReadersOf(key.Labels).Describe(), key.Name,
		}, "\t")
	})
}

func (a app) rotateKeyCmd() *cobra.Command {
	var overlap time.Duration
	command := &cobra.Command{
		Use:     "rotate ID",
		Short:   "Replace a key by a new one with the same rights",
		Example: "  unweaver keys rotate 1a2b3c4d --overlap 24h",
		Args:    console.RequireArgs(1, 1, "the id of a key"),
		RunE: func(command *cobra.Command, args []string) error {
			return reportKeys(a, command, func(ctx context.Context, keys access.Keeper) (access.Made, error) {
				return keys.RotateKey(ctx, args[0], overlap)
			}, showMade)
		},
	}
	command.Flags().DurationVar(&overlap, "overlap", 0, "how long the old key stays valid; 0: it is revoked at once")
	return command
}

func (a app) revokeKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke an API key within a second",
		Example: "  unweaver keys revoke 1a2b3c4d",
		Args:    console.RequireArgs(1, 1, "the id of a key"),
		RunE: func(command *cobra.Command, args []string) error {
			return reportKeys(a, command, func(ctx context.Context, keys access.Keeper) (access.Key, error) {
				return keys.RevokeKey(ctx, args[0])
			}, func(w io.Writer, key access.Key) { fmt.Fprintf(w, "%s: revoked\n", key.ID) })
		},
	}
}
