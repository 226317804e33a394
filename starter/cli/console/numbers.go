package console

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unweaver/unweaver/internal/fault"
)

// kinds are what flags take, by the type of their values.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false",
	"duration": "a time such as 90s or 12h",
}

// isOfGo reports whether an error is one of Go's readers of values, which name themselves in it.
func isOfGo(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "strconv.") || strings.HasPrefix(text, "time: ")
}

// badFlag returns the error of a flag whose value is of no use.
func badFlag(flag *pflag.Flag, value, bound string) error {
	kind := kinds[flag.Value.Type()]
	if kind == "" {
		kind = "another value"
	}
	return fmt.Errorf("--%s requires %s%s, got %q", flag.Name, kind, bound, value)
}

// leastOneMark annotates flags that take no 0.
const leastOneMark = "least-one"

// LeastOne has flags of a command refuse 0.
func LeastOne(command *cobra.Command, names ...string) *cobra.Command {
	for _, name := range names {
		_ = command.Flags().SetAnnotation(name, leastOneMark, nil) // the flag exists
	}
	return command
}

// checkNumbers refuses numbers that no flag takes: negative ones, and 0 where something is counted.
func checkNumbers(command *cobra.Command) (wrong error) {
	command.Flags().Visit(func(flag *pflag.Flag) {
		text := flag.Value.String()
		number, err := strconv.ParseFloat(text, 64)
		switch flag.Value.Type() {
		case "int", "int64", "float64":
		case "duration":
			var span time.Duration
			span, err = time.ParseDuration(text)
			number = span.Seconds()
		default:
			return
		}
		least, bound := 0.0, " that is not negative"
		if _, counts := flag.Annotations[leastOneMark]; counts {
			least, bound = 1, ", 1 or more"
		}
		if err != nil || number < least || number > math.MaxFloat64 || math.IsNaN(number) {
			wrong = fault.Usage.At("", "").
				Because(badFlag(flag, text, bound)).
				Advise("see: " + command.CommandPath() + " --help")
		}
	})
	return wrong
}

// ParseTime reads the time that a flag gives: RFC 3339, or a day and perhaps a time of UTC. Nothing is no time.
func ParseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{
		time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
	} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fault.Usage.At("read --"+flag, fault.QuoteName(text)).
		Because("it is not a time").
		Advise("write it as 2026-11-22T18:00:00Z, or as \"2026-11-22 18:00\" or 2026-11-22 in UTC")
}

// ParseValue reads the value of a parameter: JSON, or a word.
func ParseValue(text string) (value any) {
	if json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	return value
}
