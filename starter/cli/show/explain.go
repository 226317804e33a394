package show

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/methods/apr/aprmethod"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/gemmethod"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// nameTyped returns the name of an entity with its type, where it has one.
func nameTyped(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + " (" + kind + ")"
}

// Explanation returns an explanation as its method gave it. What another version names otherwise is empty.
func Explanation[T any](explained any) (out T) {
	if raw, err := json.Marshal(explained); err == nil {
		_ = json.Unmarshal(raw, &out) // what does not fit stays empty
	}
	return out
}

// showExplain prints the explanation of a response as a table; its form goes by the method.
func showExplain(writer io.Writer, got answer.Response) {
	if got.Explain == nil {
		return
	}
	names, rank := map[string]string{}, map[string]int{}
	for _, entity := range got.Entities {
		names[entity.ID] = nameTyped(entity.Name, entity.Type)
	}
	for _, chunk := range got.Chunks {
		rank[chunk.ID] = chunk.Rank
		for _, entity := range chunk.Entities {
			names[entity.ID] = cmp.Or(names[entity.ID], entity.Name)
		}
	}
	name := func(id string) string { return cmp.Or(names[id], id[:min(8, len(id))]) }
	switch got.Method {
	case retrieve.Hybrid:
		showHybrid(writer, got.Explain, rank, name)
	case retrieve.Unweaver:
		if got.Rule != nil && *got.Rule == "weighted" {
			showWeighted(writer, got)
		} else {
			showElection(writer, got.Explain, rank, name)
		}
	case retrieve.PPR:
		explain := Explanation[retrieve.PPRExplain](got.Explain)
		fmt.Fprintf(writer, "\nwalk from %d entities, damping %g:\n", len(explain.Seeds), explain.Damping)
		for _, seed := range explain.Seeds {
			fmt.Fprintf(writer, "  %5.1f %%  %s\n", 100*seed.Score, Shorten(name(seed.ID), 60))
		}
	case retrieve.Aligned:
		showAligned(writer, got.Explain, rank, name)
	case gem.Name:
		showGem(writer, got.Explain, rank)
	case aprmethod.Name:
		showAPR(writer, got.Explain, rank)
	}
}

// showAPR prints the runs of facts with the terms of their scores, and the facts that are stated, in how many tokens.
func showAPR(writer io.Writer, explained any, rank map[string]int) {
	explain := Explanation[aprmethod.APRExplain](explained)
	compared := "compared by " + strings.Join(explain.Names, ", ")
	if len(explain.Names) == 0 {
		compared = "no name in the question: the whole question is compared"
	}
	fmt.Fprintf(writer, "\nruns of facts, %s:\n", compared)
	fmt.Fprintf(writer, "  %6s  %6s  %6s  %6s  %6s  %8s  %6s  %s\n",
		"score", "coarse", "top", "cover", "pairs", "distinct", "whole", "facts")
	for _, run := range explain.Runs {
		same := ""
		if !run.Kept {
			same = " (left out: another run says the same)"
		}
		fmt.Fprintf(writer, "  %6.3f  %6.3f  %6.3f  %6.3f  %6.3f  %8.3f  %6.3f  %s%s\n", run.Fine, run.Coarse, run.Top,
			run.Cover, run.Pairs, run.Distinct, run.Whole, Shorten(strings.Join(run.Facts, "; "), 80), same)
	}
	if len(explain.Told) == 0 {
		fmt.Fprintf(writer, "passed to the model: nothing\n")
		return
	}
	fmt.Fprintf(writer, "passed to the model as %s, %d tokens:\n", explain.Encoding, explain.Tokens)
	for _, fact := range explain.Told {
		var cited []string
		for _, id := range fact.Chunks {
			if rank[id] > 0 {
				cited = append(cited, fmt.Sprintf("[%d]", rank[id]))
			}
		}
		fmt.Fprintf(writer, "  %s  %s\n", Shorten(fact.Head+" | "+fact.Relation+" | "+fact.Tail, 100),
			strings.Join(cited, " "))
	}
}

// showGem prints which question of each chunk was nearest, and the summaries that brought chunks.
func showGem(writer io.Writer, explained any, rank map[string]int) {
	explain := Explanation[gemmethod.GemExplain](explained)
	fmt.Fprintf(writer, "\nquestions that passages answer:\n")
	for _, chunk := range explain.Chunks {
		brought := ""
		if chunk.Summary != nil {
			brought = fmt.Sprintf(" (found through the summary of theme %d)", *chunk.Summary)
		}
		if step := chunk.Step; step != nil {
			brought += ", " + edgeOf(*step, rank)
		}
		fmt.Fprintf(writer, "  %2d  %.3f  %s%s\n", rank[chunk.ID], chunk.Score, Shorten(chunk.Question, 80), brought)
	}
	for _, summary := range explain.Summaries {
		fmt.Fprintf(writer, "  theme %d, %.3f: %s\n", summary.Theme, summary.Score, Shorten(summary.Summary, 80))
	}
}

// edgeOf says which edge led a search to a chunk.
func edgeOf(step gemmethod.GemStep, rank map[string]int) string {
	switch {
	case step.Theme != nil:
		return fmt.Sprintf("priority %.3f along an edge of %.3f from the summary of theme %d", step.Priority, step.Weight,
			*step.Theme)
	case rank[step.From] > 0:
		return fmt.Sprintf("priority %.3f along an edge of %.3f from [%d]", step.Priority, step.Weight, rank[step.From])
	case step.From != "":
		return fmt.Sprintf("priority %.3f along an edge of %.3f from %.8s", step.Priority, step.Weight, step.From)
	}
	return fmt.Sprintf("priority %.3f, no edge led here", step.Priority)
}

func formatPlace(p *retrieve.Place) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%d (%.3f)", p.Rank, p.Score)
}

// displayName returns a class's name as the response has it, else the folded one.
func displayName(name string, s retrieve.ClassShare) string {
	if strings.HasPrefix(s.ID, name) {
		return s.Name
	}
	return name
}

func showHybrid(writer io.Writer, explained any, rank map[string]int, name func(string) string) {
	explain := Explanation[retrieve.HybridExplain](explained)
	fmt.Fprintf(writer, "\nseeds of the walk:\n  %7s  %-16s %-16s %s\n", "weight", "place by BM25", "by similarity",
		"entity")
	for i, e := range explain.Entities {
		if i == 10 {
			fmt.Fprintf(writer, "  … and %d more\n", len(explain.Entities)-10)
			break
		}
		fmt.Fprintf(writer, "  %6.2f%%  %-16s %-16s %s\n", 100*e.Seed, formatPlace(e.BM25), formatPlace(e.Dense),
			Shorten(e.Name, 60))
	}
	fmt.Fprintf(writer, "\nsources of each passage's score:\n")
	for _, chunk := range explain.Chunks {
		var parts []string
		if chunk.Plain >= 0.005 {
			parts = append(parts, fmt.Sprintf("%.0f %% plain search", 100*chunk.Plain))
		}
		for i, share := range chunk.Shares {
			if i == 3 || share.Share < 0.005 {
				break
			}
			parts = append(
				parts,
				fmt.Sprintf("%.0f %% %s", 100*share.Share, Shorten(displayName(name(share.ID), share), 32)),
			)
		}
		fmt.Fprintf(writer, "  [%d] BM25 %s: %s\n", rank[chunk.ID], formatPlace(chunk.BM25), strings.Join(parts, ", "))
	}
}

func showWeighted(writer io.Writer, got answer.Response) {
	explain := Explanation[retrieve.WeightedExplain](got.Explain)
	fmt.Fprintf(writer, "\nvoters (of %d, %d votes):\n", explain.Voters, explain.Votes)
	for _, e := range got.Entities {
		fmt.Fprintf(writer, "  %2d  %-44s similarity %.3f  in %d passages\n", e.Rank,
			Shorten(nameTyped(e.Name, e.Type), 44), e.Similarity, e.ChunkTotal)
	}
	fmt.Fprintln(writer, "\nscore = count / votes * (1 - first / voters):")
	for i, c := range explain.Chunks {
		fmt.Fprintf(writer, "  [%d] %d / %d * (1 - %d / %d) = %.4f\n", i+1, c.Count, explain.Votes, c.First, explain.Voters,
			c.Score)
	}
}

func showElection(writer io.Writer, explained any, rank map[string]int, name func(string) string) {
	explain := Explanation[retrieve.ElectionExplain](explained)
	fmt.Fprintf(writer, "\nrule %s (%s), value %.4f:\n", explain.Rule, explain.Status, explain.Value)
	for _, s := range explain.Seats {
		v := "no voter supports it"
		if s.Value != nil {
			v = fmt.Sprintf("%.4f", *s.Value)
		}
		var voters []string
		for _, id := range s.Voters {
			voters = append(voters, Shorten(name(id), 32))
		}
		fmt.Fprintf(writer, "  [%d] %s  %s\n", rank[s.ID], v, strings.Join(voters, ", "))
	}
	if explain.RunnerUp != nil {
		fmt.Fprintf(writer, "  runner-up %.8s: approval %.4g, %.4g short of the last seat\n", explain.RunnerUp.ID,
			explain.RunnerUp.Approval, explain.RunnerUp.Gap)
	}
	if len(explain.Unserved) > 0 {
		fmt.Fprintf(writer, "  %d voters without a seat\n", len(explain.Unserved))
	}
}

func showAligned(writer io.Writer, explained any, rank map[string]int, name func(string) string) {
	explain := Explanation[retrieve.AlignedExplain](explained)
	fmt.Fprintf(writer, "\naligned by %s: %s, gap %.2g after %d rounds\n", explain.Solver, explain.Status, explain.Gap,
		explain.Rounds)
	for _, e := range explain.Entities {
		if e.Kept {
			fmt.Fprintf(writer, "  strength %7.4f  %s\n", e.X, Shorten(name(e.ID), 60))
		}
	}
	for _, chunk := range explain.Chunks {
		p := "-"
		if chunk.Price != nil {
			p = fmt.Sprintf("%.4f", *chunk.Price)
		}
		fmt.Fprintf(writer, "  [%d] price %s, load %.3f of %.3g\n", rank[chunk.ID], p, chunk.Load, chunk.Capacity)
	}
}

// Both prints two rankings side by side: with everything, and without what was left out.
func Both(writer io.Writer, with, without answer.Response) {
	fmt.Fprintf(writer, "\n%-52s %s\n", "with everything", "without")
	for i := range max(len(with.Chunks), len(without.Chunks)) {
		cell := func(got answer.Response) string {
			if i >= len(got.Chunks) {
				return ""
			}
			return fmt.Sprintf("[%d] %s (%.4f)", got.Chunks[i].Rank, Shorten(got.Chunks[i].Title, 34), got.Chunks[i].Score)
		}
		fmt.Fprintf(writer, "%-52s %s\n", cell(with), cell(without))
	}
}
