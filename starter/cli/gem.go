package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
)

func (a *App) gemCmd() *cobra.Command {
	command := &cobra.Command{
		Use:   "gem",
		Short: "Export what the enrichment gem made of an index",
		Long: `Export what the enrichment gem made of an index (indexes.*.enrich: [gem]): the questions that chunks answer,
the graph of their similarity, and the themes that they have in common.`,
	}
	command.AddCommand(a.gemExportCmd())
	return command
}

func (a *App) gemExportCmd() *cobra.Command {
	var index, generation, form, out string
	command := indexed(&cobra.Command{
		Use:   "export",
		Short: "Write the memory of an index: nodes, edges, themes, loadings",
		Long: `Write the memory of an index as JSON, or as GraphML for programs that draw graphs: each chunk with its text,
its questions, its place in the plane and its loading in each theme; the strongest eight edges of each; themes with
their summaries and members; the spectrum. Equal generations give equal bytes.

It goes to standard output, or to a file that is there only once it is whole. A generation that was built without the
enrichment has none.`,
		Example: "  unweaver gem export --index docs | jq '.themes[] | {lambda, members}'\n" +
			"  unweaver gem export --index docs --format graphml --out docs.graphml",
		Args: arguments(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			if form != "json" && form != "graphml" {
				return fault.Usage.At("read --format", fault.Quoted(form)).Because("want json or graphml")
			}
			if a.json && form != "json" && out == "" {
				return fault.Usage.At("run unweaver", "gem export").
					Because("--json prints JSON, and GraphML is wanted").Advise("write the map to a file with --out FILE")
			}
			return a.withQueries(command.Context(), func(ctx context.Context, base string) error {
				asked := url.Values{"format": {form}}
				if generation != "" {
					asked.Set("generation", generation)
				}
				address := base + "/v1/indexes/" + url.PathEscape(index) + "/memory/map?" + asked.Encode()
				if out == "" {
					_, err := fetch(ctx, base, address, a.Out)
					return err
				}
				bytes, err := fetchFile(ctx, base, address, out)
				if err != nil {
					return err
				}
				told := map[string]any{"index": index, "format": form, "file": out, "bytes": bytes}
				return a.print(told, func(w io.Writer) {
					fmt.Fprintf(w, "the memory of %s is in %s (%s)\n", index, out, size(bytes))
				})
			})
		},
	}, &index)
	set := command.Flags()
	set.StringVar(&generation, "generation", "", "a kept generation instead of the current one")
	set.StringVar(&form, "format", "json", "json or graphml")
	set.StringVar(&out, "out", "", "write to this file")
	return command
}

// exportClient has no bound of time in all: an export takes as long as there are texts to read.
var exportClient = &http.Client{}

// fetch copies an answer of query-api, and gives how many bytes there were. One that breaks off is an error.
func fetch(ctx context.Context, base, address string, to io.Writer) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	if key := keyOf(ctx); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := exportClient.Do(request)
	if err != nil {
		return 0, fault.StoreDown.At("export from", base).Because(err).Advise("check that query-api runs there")
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // what was read tells enough
		return 0, refusal(response, raw)
	}
	bytes, err := io.Copy(to, response.Body)
	if err != nil {
		return bytes, fault.StoreDown.At("export from", base).Because(err).
			Advise("the answer broke off, and is not whole: try again; the log of query-api has the cause")
	}
	return bytes, nil
}

// fetchFile writes an answer to a file that is there only once it is whole. It holds texts of documents, so that nobody
// else may read it.
func fetchFile(ctx context.Context, base, address, path string) (int64, error) {
	failed := func(err error) error {
		return fault.Usage.At("write the map", path).Because(err).Advise("give another file with --out")
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, failed(err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // gone already where all is well
	bytes, err := fetch(ctx, base, address, file)
	if err != nil {
		_ = file.Close()
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, failed(err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return 0, failed(err)
	}
	return bytes, nil
}
