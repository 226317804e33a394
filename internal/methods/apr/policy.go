package apr

// Bounds of the policy.
const (
	allFacts      = 0.7  // share of the budget that all facts may take
	repeatedBelow = 0.10 // share of repeated facts with which all are taken
)

// Choice is the facts that are stated, and what they cost.
type Choice struct {
	All      bool // also facts that say what others say
	Encoding Encoding
	Text     string
	Tokens   int
	Facts    int // how many facts are stated, the first ones
}

// Decide chooses what is stated: all facts where they take little of the budget and hardly repeat, else those that are
// unique, from the first on. The text never has more tokens than the budget; where not even one fact fits, it is empty.
func Decide(unique, all []Word, budget int, count func(string) int) Choice {
	if repeated := 1 - float64(len(unique))/float64(max(1, len(all))); repeated < repeatedBelow {
		if choice := chooseEncoding(all, count); float64(choice.Tokens) <= allFacts*float64(budget) {
			choice.All = true
			return choice
		}
	}
	if choice := chooseEncoding(unique, count); choice.Tokens <= budget {
		return choice
	}
	return firstFacts(unique, budget, count)
}

func chooseEncoding(facts []Word, count func(string) int) Choice {
	encoding, text, tokens := ChooseEncoding(facts, count)
	return Choice{Encoding: encoding, Text: text, Tokens: tokens, Facts: len(facts)}
}

// firstFacts returns as many facts as fit, found by halving. Where a longer list has fewer tokens, in another encoding,
// it may find some less than the most. What it returns was counted.
func firstFacts(facts []Word, budget int, count func(string) int) Choice {
	fits := Choice{}
	low, high := 0, len(facts) // low fits or is nothing, high does not
	for low+1 < high {
		middle := (low + high) / 2
		if choice := chooseEncoding(facts[:middle], count); choice.Tokens <= budget {
			fits, low = choice, middle
		} else {
			high = middle
		}
	}
	return fits
}
