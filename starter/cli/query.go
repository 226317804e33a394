package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/control"
)

// Answer is what the command line reads of a query's response.
type Answer struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
	Method     string `json:"method"`
	Models     string `json:"models"`
	Reason     string `json:"reason"`
	Chunks     []struct {
		ID       string  `json:"id"`
		Document string  `json:"document"`
		Title    string  `json:"title"`
		Start    int     `json:"start"`
		End      int     `json:"end"`
		Text     string  `json:"text"`
		Score    float64 `json:"score"`
		Rank     int     `json:"rank"`
		Filled   bool    `json:"filled"`
		Entities []struct {
			Name string `json:"name"`
		} `json:"entities"`
	} `json:"chunks"`
	Entities []struct {
		Name       string  `json:"name"`
		Similarity float64 `json:"similarity"`
		Rank       int     `json:"rank"`
		ChunkTotal int64   `json:"chunk_total"`
	} `json:"entities"`
	Answer *struct {
		Text      string   `json:"text"`
		Citations []string `json:"citations"`
	} `json:"answer"`
	Explain *struct {
		Voters int `json:"voters"`
		Votes  int `json:"votes"`
		Chunks []struct {
			ID    string  `json:"id"`
			Count int     `json:"count"`
			First int     `json:"first"`
			Score float64 `json:"score"`
		} `json:"chunks"`
	} `json:"explain"`
	Timings struct {
		Total float64 `json:"total"`
	} `json:"timings_ms"`
}

func (a *App) queryCmd() *cobra.Command {
	var index, method, rule, gen string
	var explain, answer bool
	var top int
	c := &cobra.Command{Use: "query QUESTION", Short: "Ask a published index", Args: exactArgs(1, "a question"), RunE: func(c *cobra.Command, args []string) error {
		body := map[string]any{"query": args[0], "explain": explain, "answer": answer}
		for k, v := range map[string]string{"method": method, "rule": rule, "generation": gen} {
			if v != "" {
				body[k] = v
			}
		}
		if top > 0 {
			body["top_chunks"] = top
		}
		return a.withControl(c.Context(), func(ctx context.Context, _ control.Control, base string) error {
			raw, err := Ask(ctx, base, index, body)
			if err != nil {
				return err
			}
			if a.json {
				_, err := fmt.Fprintln(a.Out, strings.TrimSpace(string(raw)))
				return err
			}
			var r Answer
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			ShowAnswer(a.Out, r)
			return nil
		})
	}}
	f := c.Flags()
	f.StringVar(&index, "index", "", "name of the index")
	f.StringVar(&method, "method", "", "retrieval method (default: the index's)")
	f.StringVar(&rule, "rule", "", "election rule of method unweaver")
	f.StringVar(&gen, "generation", "", "a kept generation instead of the current one")
	f.BoolVar(&explain, "explain", false, "show how every chunk was elected")
	f.BoolVar(&answer, "answer", true, "answer from the chunks")
	f.IntVar(&top, "top-chunks", 0, "number of chunks (default: the index's)")
	_ = c.MarkFlagRequired("index") // the flag exists
	return c
}

var queryClient = &http.Client{Timeout: 2*time.Minute + 10*time.Second}

// Ask posts a query and gives the raw response.
func Ask(ctx context.Context, base, index string, body map[string]any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/indexes/"+url.PathEscape(index)+"/query", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := queryClient.Do(req)
	if err != nil {
		return nil, fault.New(fault.StoreDown, fault.Transient, "query", base, err, "check that query-api runs there")
	}
	defer func() { _ = r.Body.Close() }()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		var p struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		}
		if json.Unmarshal(raw, &p) != nil || p.Code == "" {
			p.Code, p.Detail = string(fault.Internal), r.Status
		}
		return nil, fault.New(fault.Code(p.Code), fault.Bad, "", "", p.Detail, "")
	}
	return raw, nil
}

// ShowAnswer prints a response for people.
func ShowAnswer(w io.Writer, r Answer) {
	if r.Answer != nil {
		fmt.Fprintf(w, "%s", r.Answer.Text)
		for _, c := range r.Answer.Citations {
			for _, x := range r.Chunks {
				if x.ID == c {
					fmt.Fprintf(w, " [%d]", x.Rank)
				}
			}
		}
		fmt.Fprint(w, "\n\n")
	}
	if r.Reason != "" {
		fmt.Fprintf(w, "no chunk: %s\n", r.Reason)
	}
	for _, c := range r.Chunks {
		mark := ""
		if c.Filled {
			mark = " filled up"
		}
		fmt.Fprintf(w, "[%d] %s  (%s, %d–%d)  score %.4f%s\n", c.Rank, c.Title, c.Document, c.Start, c.End, c.Score, mark)
		fmt.Fprintf(w, "    %s\n", snippet(c.Text, 240))
		var names []string
		for _, e := range c.Entities {
			names = append(names, e.Name)
		}
		if len(names) > 0 {
			fmt.Fprintf(w, "    elected by: %s\n", strings.Join(names, ", "))
		}
	}
	if r.Explain != nil {
		fmt.Fprintf(w, "\nvoters (of %d, %d votes):\n", r.Explain.Voters, r.Explain.Votes)
		for _, e := range r.Entities {
			fmt.Fprintf(w, "  %2d  %-44s similarity %.3f  in %d chunks\n", e.Rank, snippet(e.Name, 44), e.Similarity, e.ChunkTotal)
		}
		fmt.Fprintln(w, "\nscore = count / votes * (1 - first / voters):")
		for i, x := range r.Explain.Chunks {
			fmt.Fprintf(w, "  [%d] %d / %d * (1 - %d / %d) = %.4f\n", i+1, x.Count, r.Explain.Votes, x.First, r.Explain.Voters, x.Score)
		}
	}
	fmt.Fprintf(w, "\n%s, generation %s, method %s, %s, %.0f ms\n", r.Index, r.Generation, r.Method, r.Models, r.Timings.Total)
}

func snippet(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
