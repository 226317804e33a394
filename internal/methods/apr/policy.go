package apr

// Actions is what is taken of each channel.
type Actions struct{ Questions, Answers, Facts Action }

// Channels are what a query found: how much of it is taken is what a policy decides.
type Channels struct {
	// Select gives a payload for actions. More is never fewer triples: All holds Unique holds None.
	Select func(Actions) Payload
	// QuestionScore is the cosine of the best of earlier questions, 0 without one.
	QuestionScore float64
	// Repeated is the share of facts that say what another says.
	Repeated float64
}

// Bounds of the rule policy.
const (
	AnswersFrom   = 0.85 // cosine of an earlier question whose answer is looked at
	allFacts      = 0.7  // share of the budget that all facts may take
	repeatedBelow = 0.10 // share of repeated facts with which all are taken
)

// Choice is what a policy decided, and what it costs.
type Choice struct {
	Actions  Actions
	Encoding Encoding
	Text     string
	Tokens   int
	Facts    int // how many facts are told, the first ones
}

// Decide is the rule policy: facts once each, answers where an earlier question is near enough, all facts where they
// fit well and hardly repeat. What goes over the budget is given up: answers first, then repeated facts, then facts
// from the last on. The text never has more tokens than the budget; where not even one fact fits, it is empty.
//
// Encodings are those that are looked at; without any, those published.
func Decide(c Channels, budget int, count func(string) int, encodings ...Encoding) Choice {
	actions := Actions{Facts: Unique}
	if c.QuestionScore >= AnswersFrom {
		actions.Answers = Unique
	}
	if c.Repeated < repeatedBelow {
		only := Actions{Facts: All}
		if _, _, n := c.Select(only).Smallest(count, encodings...); float64(n) <= allFacts*float64(budget) {
			actions.Facts = All
		}
	}
	ladder := []Actions{actions}
	if actions.Answers != None {
		actions.Answers = None
		ladder = append(ladder, actions)
	}
	if actions.Facts != Unique {
		actions.Facts = Unique
		ladder = append(ladder, actions)
	}
	for _, step := range ladder {
		payload := c.Select(step)
		if choice := choose(payload, step, count, encodings); choice.Tokens <= budget {
			return choice
		}
	}
	return firstFacts(c.Select(actions), actions, budget, count, encodings)
}

// Each gives what every action on facts would tell within the budget: nothing, each fact once, all of them. What Decide
// chooses is among them, unless it tells nothing or an answer: a log of utilities compares it with these.
func (c Channels) Each(budget int, count func(string) int, encodings ...Encoding) []Choice {
	choices := []Choice{{}}
	for _, facts := range []Action{Unique, All} {
		actions := Actions{Facts: facts}
		payload := c.Select(actions)
		choice := choose(payload, actions, count, encodings)
		if choice.Tokens > budget {
			choice = firstFacts(payload, actions, budget, count, encodings)
			choice.Actions = actions
		}
		choices = append(choices, choice)
	}
	return choices
}

func choose(payload Payload, actions Actions, count func(string) int, encodings []Encoding) Choice {
	encoding, text, tokens := payload.Smallest(count, encodings...)
	return Choice{actions, encoding, text, tokens, len(payload.Facts)}
}

// firstFacts are as many as fit, found by halving. Where a longer payload has fewer tokens, for another encoding, it
// may find some less than the most; what it gives was counted.
func firstFacts(payload Payload, actions Actions, budget int, count func(string) int, encodings []Encoding) Choice {
	facts := payload.Facts
	fits := Choice{}
	low, high := 0, len(facts) // low fits or is nothing, high does not
	for low+1 < high {
		middle := (low + high) / 2
		payload.Facts = facts[:middle]
		if choice := choose(payload, actions, count, encodings); choice.Tokens <= budget {
			fits, low = choice, middle
		} else {
			high = middle
		}
	}
	return fits
}
