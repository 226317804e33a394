package querycmd

import (
	"strings"
)

// methodHelp reports each retrieval method in a line, in the order of config.Methods; a test holds them together.
var methodHelp = [][2]string{
	{"hybrid", "keyword and vector search of passages and entities, then a graph walk (the default)"},
	{"unweaver", "the entities most similar to the question vote for passages; --rule sets the election rule"},
	{"ppr", "a random walk with restart from those entities only"},
	{"aligned", "those entities are matched with passages by strength"},
	{"vector", "vector similarity of passages only"},
	{"bm25", "words alone"},
	{"gem", "generated questions of passages, and theme summaries; the index needs enrich: [gem]"},
	{"apr", "runs of facts; the index needs enrich: [facts]"},
}

// ruleHelp reports each election rule, in the order of config.Rules.
var ruleHelp = [][2]string{
	{"weighted", "votes, with more weight for earlier voters (the default)"},
	{"av", "approval: the passages with the most votes"},
	{"sav", "satisfaction approval: each entity's vote is split among its passages"},
	{"pav", "proportional approval, exact"},
	{"seqpav", "proportional approval, passage by passage"},
	{"cc", "Chamberlin-Courant, exact: as many entities as possible have a passage"},
	{"seqcc", "Chamberlin-Courant, passage by passage"},
	{"phragmen", "Phragmén's sequential rule: the load is spread evenly"},
	{"mes", "method of equal shares: each entity spends the same budget"},
}

// formatChoices lays out names and what they mean.
func formatChoices(of [][2]string) string {
	var text strings.Builder
	for _, choice := range of {
		text.WriteString("\n  " + choice[0] + strings.Repeat(" ", max(1, 10-len(choice[0]))) + choice[1])
	}
	return text.String()
}

// queryLong returns the help of query.
func queryLong() string {
	return "Ask a published index: passages, best first, and an answer from them.\n\nMethods (--method):\n" +
		formatChoices(methodHelp) + "\n\nRules of method unweaver (--rule):\n" + formatChoices(ruleHelp) +
		"\n\nTo set a parameter of a method: --param name=value. For an unknown name the error lists the parameters\n" +
		"of the method."
}
