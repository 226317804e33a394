package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronField is one of the five fields of a cron line.
type cronField struct {
	name        string
	least, most int
	words       string // three letters each, the first standing for first
	first       int
}

var cronFields = []cronField{
	{name: "minute", most: 59},
	{name: "hour", most: 23},
	{name: "day of month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, words: "janfebmaraprmayjunjulaugsepoctnovdec", first: 1},
	{name: "day of week", most: 7, words: "sunmontuewedthufrisat"},
}

var cronNames = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// cronMistake says what is wrong with a cron line, or nothing. A line has five fields (minute, hour, day of month,
// month, day of week), each a list of *, a number or a range, with an optional /step; or it is one of the @ names.
func cronMistake(line string) string {
	if strings.HasPrefix(line, "@") {
		if slices.Contains(cronNames, line) {
			return ""
		}
		return fmt.Sprintf("%q is not known; use %s", line, strings.Join(cronNames, ", "))
	}
	fields := strings.Fields(line)
	if len(fields) != len(cronFields) {
		return fmt.Sprintf("%q has %d fields, want minute, hour, day of month, month, day of week", line, len(fields))
	}
	for i, text := range fields {
		for _, part := range strings.Split(text, ",") {
			if why := cronFields[i].findMistake(part); why != "" {
				return fmt.Sprintf("%q: %s %q: %s", line, cronFields[i].name, part, why)
			}
		}
	}
	return ""
}

func (f cronField) findMistake(part string) string {
	span, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n < 1 || n > f.most {
			return fmt.Sprintf("a step is 1 to %d", f.most)
		}
	}
	if span == "*" {
		return ""
	}
	from, to, ranged := strings.Cut(span, "-")
	first, ok := f.parseValue(from)
	last, okLast := first, true
	if ranged {
		last, okLast = f.parseValue(to)
	}
	switch {
	case !ok || !okLast:
		return fmt.Sprintf("want %d to %d", f.least, f.most)
	case first > last:
		return "the range ends before it begins"
	}
	return ""
}

// parseValue reads a number or a name within the field's bounds.
func (f cronField) parseValue(text string) (int, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, n >= f.least && n <= f.most
	}
	i := strings.Index(f.words, strings.ToLower(text))
	return f.first + i/3, len(text) == 3 && i >= 0 && i%3 == 0
}
