package eval

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// UtilitiesFile is the name of the log of utilities in the folder of a report.
const UtilitiesFile = "utilities.jsonl"

// tokenWeight is what a whole budget of tokens costs in the utility, where all gold passages are worth 1.
const tokenWeight = 0.1

// PolicyMethod is the method of which utilities are logged.
const PolicyMethod = "apr"

// Utility is a line of the log: what a policy saw of a question, and what each action on facts would have been worth
// (specs of AutoPrunedRetriever: features, actions, tokens, latency and score for every question). Its text is not in
// it, only the identity that the dataset gives it.
type Utility struct {
	Question string          `json:"question"`
	System   string          `json:"system"`
	Features json.RawMessage `json:"features"`
	Actions  []UtilityAction `json:"actions"`
	Latency  float64         `json:"latency_ms"` // of the whole query, with its explanation
}

// UtilityAction is an action with what it is worth.
type UtilityAction struct {
	Facts   string  `json:"facts"` // none, unique or all
	Told    int     `json:"told"`
	Tokens  int     `json:"tokens"`
	Chosen  bool    `json:"chosen"`
	Recall  float64 `json:"recall"`  // share of the gold passages that the facts told are said by
	Utility float64 `json:"utility"` // recall - 0.1 tokens/budget
}

// policy is what is read of an explanation.
type policy struct {
	Features json.RawMessage `json:"features"`
	Actions  []struct {
		UtilityAction
		Documents []string `json:"documents"`
	} `json:"actions"`
}

// utility of an answer, nil where nothing was found to choose from.
func (r response) utility(question Question, system string, latency float64) (*Utility, error) {
	var explained struct {
		Policy policy `json:"policy"`
	}
	if len(r.Explain) > 0 {
		if err := json.Unmarshal(r.Explain, &explained); err != nil {
			return nil, err
		}
	}
	given := explained.Policy
	if len(given.Actions) == 0 {
		return nil, nil
	}
	var features struct {
		Budget int `json:"budget"`
	}
	if err := json.Unmarshal(given.Features, &features); err != nil {
		return nil, err
	}
	out := &Utility{Question: question.ID, System: system, Features: given.Features, Latency: latency}
	for _, one := range given.Actions {
		action, told := one.UtilityAction, map[string]bool{}
		for _, document := range one.Documents {
			if id := Passage(document); question.Gold[id] {
				told[id] = true
			}
		}
		action.Recall = float64(len(told)) / float64(len(question.Gold))
		action.Utility = action.Recall - tokenWeight*float64(action.Tokens)/float64(max(1, features.Budget))
		out.Actions = append(out.Actions, action)
	}
	return out, nil
}

// Best is the action of the highest utility, of equal ones the one that comes first.
func (u Utility) Best() UtilityAction {
	best := u.Actions[0]
	for _, action := range u.Actions[1:] {
		if action.Utility > best.Utility {
			best = action
		}
	}
	return best
}

// writeUtilities writes the log, a line for each question.
func writeUtilities(path string, lines []Utility) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	buffered := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffered)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// utilities writes the table of what each action was worth.
func (r *Report) utilities(text *strings.Builder) {
	if len(r.Utilities) == 0 {
		return
	}
	fmt.Fprintf(text, "\n## What `%s` tells: utility of each action\n\n", PolicyMethod)
	fmt.Fprintf(text, "Utility is the share of gold passages that the facts told are said by, less %.1f for a whole "+
		"budget of tokens. `best` takes the best action of each question: no policy over these actions does better. Every "+
		"question's line is in %s.\n\n", tokenWeight, UtilitiesFile)
	text.WriteString("| facts | questions | facts told | tokens | recall of what is told | utility |\n")
	text.WriteString("|---|---|---|---|---|---|\n")
	row := func(name string, of func(Utility) (UtilityAction, bool)) {
		var sum UtilityAction
		n := 0
		for _, line := range r.Utilities {
			if action, is := of(line); is {
				sum.Told, sum.Tokens = sum.Told+action.Told, sum.Tokens+action.Tokens
				sum.Recall, sum.Utility = sum.Recall+action.Recall, sum.Utility+action.Utility
				n++
			}
		}
		by := float64(max(1, n))
		fmt.Fprintf(text, "| %s | %d | %.1f | %.0f | %.1f | %.3f |\n", name, n, float64(sum.Told)/by,
			float64(sum.Tokens)/by, 100*sum.Recall/by, sum.Utility/by)
	}
	for _, name := range []string{"none", "unique", "all"} {
		row("always "+name, func(line Utility) (UtilityAction, bool) {
			return line.action(func(action UtilityAction) bool { return action.Facts == name })
		})
	}
	row("chosen by rule", func(line Utility) (UtilityAction, bool) {
		return line.action(func(action UtilityAction) bool { return action.Chosen })
	})
	row("best", func(line Utility) (UtilityAction, bool) { return line.Best(), true })
}

func (u Utility) action(is func(UtilityAction) bool) (UtilityAction, bool) {
	for _, action := range u.Actions {
		if is(action) {
			return action, true
		}
	}
	return UtilityAction{}, false
}
