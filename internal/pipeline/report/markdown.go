package report

import (
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/core"
)

// RenderMarkdown returns report.md.
func RenderMarkdown(r core.Report) string {
	var text strings.Builder
	text.WriteString("# " + escapeMarkdown(formatHeading(r)) + "\n")
	if line := joinSentence(r.Reason, r.Detail); line != "" && line != r.Status {
		text.WriteString("\n" + escapeMarkdown(line) + "\n")
	}
	for _, one := range listParts(r) {
		text.WriteString("\n## " + one.title + "\n\n")
		for _, line := range one.lines {
			text.WriteString("* " + escapeMarkdown(line) + "\n")
		}
		if len(one.rows) == 0 {
			continue
		}
		if len(one.lines) > 0 {
			text.WriteString("\n")
		}
		var rule []string
		var names []string
		for _, name := range one.columns {
			if number := strings.TrimPrefix(name, "#"); number != name {
				names, rule = append(names, number), append(rule, "---:")
				continue
			}
			names, rule = append(names, name), append(rule, "---")
		}
		text.WriteString("| " + strings.Join(names, " | ") + " |\n| " + strings.Join(rule, " | ") + " |\n")
		for _, row := range one.rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = escapeMarkdown(cell)
			}
			text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		}
	}
	return text.String()
}

// escapeMarkdown returns text that Markdown shows as it is, on one line.
func escapeMarkdown(text string) string {
	var out strings.Builder
	for _, char := range oneLine(text) {
		if strings.ContainsRune("\\`*[]<>|~!", char) {
			out.WriteByte('\\')
		}
		out.WriteRune(char)
	}
	return out.String()
}

// oneLine returns text with a space for what ends a line. It drops what a reader does not see or what turns the
// direction of text.
func oneLine(text string) string {
	return strings.Map(func(char rune) rune {
		switch {
		case char == '\n', char == '\r', char == '\t', char == '\u2028', char == '\u2029':
			return ' '
		case unicode.In(char, unicode.Cc, unicode.Bidi_Control):
			return -1
		}
		return char
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
