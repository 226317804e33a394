package telemetry

import (
	"fmt"
	"strings"
)

// Reference is docs/operations/metrics.md.
func Reference() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Metrics\n\nMade from `internal/telemetry/families.go`; "+
		"`go test ./internal/telemetry -update` writes it anew.\n\n"+
		"Names and units are as Prometheus wants them. Labels hold names and codes, never text or keys of documents; "+
		"each label has at most %d values in a process, further ones are counted as `%s`. Beside these, `go_*` and "+
		"`process_*` are those of Prometheus's Go client. A dashboard and alert rules are in `infra/monitoring`.\n",
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
	return text.String()
}
