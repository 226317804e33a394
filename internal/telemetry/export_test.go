package telemetry

import (
	"fmt"
	"strings"
)

// Reference returns the text of docs/reference/metrics.md.
func Reference() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Metrics\n\nFor operators who scrape UnWeaver with Prometheus. Dashboard and alert rules: "+
		"`infra/monitoring`. What to do: [be alerted](../guides/nights.md#be-alerted).\n\n"+
		"Labels hold names and codes, no text or keys of documents. Each label has at most %d values in a process; "+
		"further ones count as `%s`. `go_*` and `process_*` come from Prometheus's Go client. "+
		"`go test ./internal/telemetry -update` writes this page from `families.go`.\n",
		mostValues, other)
	for _, section := range sections {
		fmt.Fprintf(&text, "\n## %s\n\n", section.title)
		if section.about != "" {
			fmt.Fprintf(&text, "%s\n\n", section.about)
		}
		text.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
		for _, one := range section.families {
			labels := ""
			if len(one.labels) > 0 {
				labels = "`" + strings.Join(one.labels, "`, `") + "`"
			}
			fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", one.name, one.kind, labels, one.help)
		}
	}
	text.WriteString("\n## Traces\n\n`telemetry.otlp_endpoint` receives spans of commands, activities, HTTP requests, " +
		"stores, models (`chat NAME`, `embeddings NAME`, `rerank NAME`) and searches (`retrieval INDEX`). The last two " +
		"have the attributes of OpenTelemetry's conventions for generative AI: operation, provider, model asked and model " +
		"that answered, tokens, index, `gen_ai.retrieval.top_k`, and `error.type`, an [error code](errors.md). The " +
		"provider is known by its host, else `openai` (`http` for a reranker). `unweaver.task` says what a model was asked " +
		"for, `unweaver.method` how an index was searched.\n")
	return text.String()
}
