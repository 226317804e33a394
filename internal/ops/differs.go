package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
)

// mostDifferences that are told of two configurations.
const mostDifferences = 5

// differences tells which settings of an index are not what they were: "models.chat.model: a, was b".
func differences(was, now corpus.Spec) []string {
	before, after := settings(was), settings(now)
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			out = append(out, fmt.Sprintf("%s: %s, was %s", name, shown(after[name]), shown(before[name])))
		}
	}
	if more := len(out) - mostDifferences; more > 0 {
		out = append(out[:mostDifferences], fmt.Sprintf("and %d more", more))
	}
	return out
}

func shown(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}

// settings are the values of a specification by the names that they have in a configuration.
func settings(spec corpus.Spec) map[string]string {
	raw, err := json.Marshal(spec)
	var tree map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &tree)
	}
	if err != nil {
		panic("ops: settings: " + err.Error()) // plain structs of strings and numbers always marshal
	}
	out := map[string]string{}
	for name, value := range tree {
		prefix := "indexes." + spec.Index + "."
		if name == "chat" || name == "embedding" || name == "rerank" || name == "limits" {
			prefix = "models."
		}
		flatten(out, prefix+name, value)
	}
	return out
}

func flatten(out map[string]string, name string, value any) {
	tree, ok := value.(map[string]any)
	if !ok {
		out[name] = strings.TrimSpace(fmt.Sprint(value))
		return
	}
	for part, below := range tree {
		flatten(out, name+"."+part, below)
	}
}

// attachable refuses to join a build that stands still with other settings than those that are asked for: it would go
// on, or wait to be resumed, as it began. One that gets on is joined where its result is the same.
func attachable(run string, state corpus.RunState, was, now corpus.Spec) error {
	status := state.Report.Status
	if status != corpus.StatusPaused && status != corpus.StatusWaiting {
		return nil
	}
	differs := differences(was, now)
	if len(differs) == 0 {
		return nil
	}
	why := status
	if reason := state.Report.Reason; reason != "" {
		why += " (" + reason + ")"
	}
	return fault.LeaseHeld.At("index", now.Index).
		Because("run " + run + " builds it and is " + why + "; it began with other settings: " + strings.Join(differs, "; ")).
		Advise("go on as it began: unweaver resume " + run + "; or begin anew with these, from what is paid for: unweaver " +
			"cancel " + run + ", then the same command again")
}
