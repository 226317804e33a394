package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// showExplain prints the explanation of a response as a table; its form goes by the method.
func showExplain(w io.Writer, r Answer) {
	if len(r.Explain) == 0 {
		return
	}
	names := map[string]string{}
	for _, e := range r.Entities {
		names[e.ID] = e.Name
	}
	for _, c := range r.Chunks {
		for _, e := range c.Entities {
			names[e.ID] = e.Name
		}
	}
	name := func(id string) string {
		if n := names[id]; n != "" {
			return n
		}
		return id[:min(8, len(id))]
	}
	rank := map[string]int{}
	for _, c := range r.Chunks {
		rank[c.ID] = c.Rank
	}
	switch {
	case r.Method == retrieve.Hybrid:
		showHybrid(w, r.Explain, rank, name)
	case r.Method == retrieve.Unweaver && r.Rule == "weighted":
		showWeighted(w, r)
	case r.Method == retrieve.Unweaver:
		showElection(w, r.Explain, rank, name)
	case r.Method == retrieve.PPR:
		var x retrieve.PPRExplain
		if json.Unmarshal(r.Explain, &x) == nil {
			fmt.Fprintf(w, "\nwalk from %d classes, damping %g:\n", len(x.Seeds), x.Damping)
			for _, s := range x.Seeds {
				fmt.Fprintf(w, "  %5.1f %%  %s\n", 100*s.Score, snippet(name(s.ID), 60))
			}
		}
	case r.Method == retrieve.Aligned:
		showAligned(w, r.Explain, rank, name)
	}
}

func place(p *retrieve.Place) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%d (%.3f)", p.Rank, p.Score)
}

// shown is a class's name as the response has it, else the folded one.
func shown(name string, s retrieve.ClassShare) string {
	if strings.HasPrefix(s.ID, name) {
		return s.Name
	}
	return name
}

func showHybrid(w io.Writer, raw json.RawMessage, rank map[string]int, name func(string) string) {
	var x retrieve.HybridExplain
	if json.Unmarshal(raw, &x) != nil {
		return
	}
	fmt.Fprintf(w, "\nseeds of the walk:\n  %7s  %-16s %-16s %s\n", "weight", "place by BM25", "by similarity", "class")
	for i, e := range x.Entities {
		if i == 10 {
			fmt.Fprintf(w, "  … and %d more\n", len(x.Entities)-10)
			break
		}
		fmt.Fprintf(w, "  %6.2f%%  %-16s %-16s %s\n", 100*e.Seed, place(e.BM25), place(e.Dense), snippet(e.Name, 60))
	}
	fmt.Fprintf(w, "\nwhere each chunk's mass comes from:\n")
	for _, c := range x.Chunks {
		var parts []string
		if c.Plain >= 0.005 {
			parts = append(parts, fmt.Sprintf("%.0f %% plain search", 100*c.Plain))
		}
		for i, s := range c.Shares {
			if i == 3 || s.Share < 0.005 {
				break
			}
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*s.Share, snippet(shown(name(s.ID), s), 32)))
		}
		fmt.Fprintf(w, "  [%d] BM25 %s: %s\n", rank[c.ID], place(c.BM25), strings.Join(parts, ", "))
	}
}

func showWeighted(w io.Writer, r Answer) {
	var x retrieve.WeightedExplain
	if json.Unmarshal(r.Explain, &x) != nil {
		return
	}
	fmt.Fprintf(w, "\nvoters (of %d, %d votes):\n", x.Voters, x.Votes)
	for _, e := range r.Entities {
		fmt.Fprintf(w, "  %2d  %-44s similarity %.3f  in %d chunks\n", e.Rank, snippet(e.Name, 44), e.Similarity, e.ChunkTotal)
	}
	fmt.Fprintln(w, "\nscore = count / votes * (1 - first / voters):")
	for i, c := range x.Chunks {
		fmt.Fprintf(w, "  [%d] %d / %d * (1 - %d / %d) = %.4f\n", i+1, c.Count, x.Votes, c.First, x.Voters, c.Score)
	}
}

func showElection(w io.Writer, raw json.RawMessage, rank map[string]int, name func(string) string) {
	var x retrieve.ElectionExplain
	if json.Unmarshal(raw, &x) != nil {
		return
	}
	fmt.Fprintf(w, "\nrule %s (%s), value %.4f:\n", x.Rule, x.Status, x.Value)
	for _, s := range x.Seats {
		v := "nobody supports it"
		if s.Value != nil {
			v = fmt.Sprintf("%.4f", *s.Value)
		}
		var voters []string
		for _, id := range s.Voters {
			voters = append(voters, snippet(name(id), 32))
		}
		fmt.Fprintf(w, "  [%d] %s  %s\n", rank[s.ID], v, strings.Join(voters, ", "))
	}
	if x.RunnerUp != nil {
		fmt.Fprintf(w, "  runner-up %.8s: approval %.4g, %.4g short of the last seat\n", x.RunnerUp.ID, x.RunnerUp.Approval, x.RunnerUp.Gap)
	}
	if len(x.Unserved) > 0 {
		fmt.Fprintf(w, "  %d voters without a seat\n", len(x.Unserved))
	}
}

func showAligned(w io.Writer, raw json.RawMessage, rank map[string]int, name func(string) string) {
	var x retrieve.AlignedExplain
	if json.Unmarshal(raw, &x) != nil {
		return
	}
	fmt.Fprintf(w, "\naligned by %s: %s, gap %.2g after %d rounds\n", x.Solver, x.Status, x.Gap, x.Rounds)
	for _, e := range x.Entities {
		if e.Kept {
			fmt.Fprintf(w, "  strength %7.4f  %s\n", e.X, snippet(name(e.ID), 60))
		}
	}
	for _, c := range x.Chunks {
		p := "-"
		if c.Price != nil {
			p = fmt.Sprintf("%.4f", *c.Price)
		}
		fmt.Fprintf(w, "  [%d] price %s, load %.3f of %.3g\n", rank[c.ID], p, c.Load, c.Capacity)
	}
}

// showBoth prints two rankings side by side: with everything, and without what was left out.
func showBoth(w io.Writer, with, without Answer) {
	fmt.Fprintf(w, "\n%-52s %s\n", "with everything", "without")
	for i := range max(len(with.Chunks), len(without.Chunks)) {
		cell := func(r Answer) string {
			if i >= len(r.Chunks) {
				return ""
			}
			return fmt.Sprintf("[%d] %s (%.4f)", r.Chunks[i].Rank, snippet(r.Chunks[i].Title, 34), r.Chunks[i].Score)
		}
		fmt.Fprintf(w, "%-52s %s\n", cell(with), cell(without))
	}
}
