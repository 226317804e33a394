package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
)

func (a *App) answersCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "answers",
		Short: "List and forget answers that method apr kept",
		Long: `List and forget what is kept of answers of method apr for later questions (indexes.*.write_back), by
namespaces: those of the API key that asks, and those that all who may ask the index share (shared:NAME).`,
	}
	command.AddCommand(a.answersListCmd(), a.answersClearCmd())
	return command
}

func (a *App) answersListCmd() *cobra.Command {
	var index string
	return indexed(&cobra.Command{
		Use:     "list [NAMESPACE]",
		Short:   "List namespaces, or the answers of one",
		Example: "  unweaver answers list --index docs\n  unweaver answers list session-1 --index docs --json",
		Args:    arguments(0, 1, "at most one namespace"),
		RunE: func(command *cobra.Command, args []string) error {
			return a.withQueries(command.Context(), func(ctx context.Context, base string) error {
				raw, err := answersOf(ctx, http.MethodGet, base, index, args)
				if err != nil {
					return err
				}
				if a.json {
					_, err := fmt.Fprintln(a.Out, strings.TrimSpace(string(raw)))
					return err
				}
				return showKept(a.Out, raw)
			})
		},
	}, &index)
}

// showKept prints a list of namespaces or of answers.
func showKept(out io.Writer, raw []byte) error {
	var read struct {
		Namespaces []struct {
			Namespace string    `json:"namespace"`
			Bytes     int64     `json:"bytes"`
			Written   time.Time `json:"written"`
		} `json:"namespaces"`
		Answers []struct {
			At         time.Time `json:"at"`
			Generation string    `json:"generation"`
			Question   string    `json:"question"`
			Documents  []string  `json:"documents"`
			Triples    []struct {
				Head     string `json:"head"`
				Relation string `json:"relation"`
				Tail     string `json:"tail"`
				Support  int    `json:"support"`
			} `json:"triples"`
		} `json:"answers"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return fault.Internal.At("read answers", "").Because(err)
	}
	if len(read.Namespaces)+len(read.Answers) == 0 {
		fmt.Fprintln(out, "none are kept")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, one := range read.Namespaces {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", one.Namespace, size(one.Bytes), one.Written.Format(time.RFC3339))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, one := range read.Answers {
		fmt.Fprintf(out, "%s  %s  %s\n", one.At.Format(time.RFC3339), one.Generation, one.Question)
		for _, triple := range one.Triples {
			fmt.Fprintf(out, "  %s | %s | %s  (%d edges support it)\n",
				triple.Head, triple.Relation, triple.Tail, triple.Support)
		}
		fmt.Fprintf(out, "  rests on %s\n", strings.Join(one.Documents, ", "))
	}
	return nil
}

func (a *App) answersClearCmd() *cobra.Command {
	var index string
	var all bool
	command := indexed(&cobra.Command{
		Use:   "clear [NAMESPACE]",
		Short: "Forget the answers of a namespace, or with --all of the whole index",
		Example: "  unweaver answers clear session-1 --index docs\n" +
			"  unweaver answers clear --all --index docs",
		Args: arguments(0, 1, "a namespace, or --all"),
		RunE: func(command *cobra.Command, args []string) error {
			if all == (len(args) == 1) {
				return fault.Usage.At("run unweaver", "answers clear").Because("want a namespace, or --all")
			}
			return a.withQueries(command.Context(), func(ctx context.Context, base string) error {
				raw, err := answersOf(ctx, http.MethodDelete, base, index, args)
				if fault.Is(err, fault.NotFound) { // forgotten already
					raw, err = []byte(`{"namespaces":0}`), nil
				}
				if err != nil {
					return err
				}
				var told struct {
					Namespaces int64 `json:"namespaces"`
				}
				if err := json.Unmarshal(raw, &told); err != nil {
					return fault.Internal.At("read answer", "").Because(err)
				}
				return a.print(told, func(w io.Writer) {
					fmt.Fprintf(w, "forgotten: the answers of %s of %s\n", number(told.Namespaces, "namespace"), index)
				})
			})
		},
	}, &index)
	command.Flags().BoolVar(&all, "all", false, "those of all callers; it takes a key of scope operate")
	return command
}

// answersOf asks query-api about the kept answers of an index, or of one namespace.
func answersOf(ctx context.Context, method, base, index string, namespace []string) ([]byte, error) {
	address := base + "/v1/indexes/" + url.PathEscape(index) + "/answers"
	for _, name := range namespace {
		address += "/" + url.PathEscape(name)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	if key := keyOf(ctx); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := queryClient.Do(request)
	if err != nil {
		return nil, fault.StoreDown.At("ask for answers", base).Because(err).Advise("check that query-api runs there")
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fault.StoreDown.At("ask for answers", base).Because(err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response, raw)
	}
	return raw, nil
}
