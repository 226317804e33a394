package builtin

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

// Chat answers its tasks by rule.
type Chat struct {
	Language string // of the texts, as text.In has it
}

var _ model.Chat = Chat{}

// Info implements model.Chat.
func (c Chat) Info() model.Info {
	return model.Info{Provider: "builtin", Model: rulesName(text.LanguageOf(c.Language))}
}

// Complete implements model.Chat; it fails only when ctx is done.
func (c Chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	if err := ctx.Err(); err != nil {
		return model.Reply{}, err
	}
	language := text.LanguageOf(c.Language)
	var v any
	switch call.Task {
	case model.Extract:
		v = map[string]any{"entities": EntitiesIn(language, call.Input)}
	case model.Shorten:
		v = map[string]string{"description": SummaryIn(language, call.Input, max(200, call.Limit/4))}
	case model.Triples:
		answer, err := triples.EncodeFound(triplesIn(language, call.Input))
		return model.Reply{Text: answer}, err
	default:
		return model.Reply{}, nil // answers are quoted by who has the passages
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // <, > and & of code take one byte each
	err := encoder.Encode(v)
	return model.Reply{Text: strings.TrimSuffix(out.String(), "\n")}, err
}

// triplesIn returns the triples of a text by rule, between the names that the rules of extraction find in it.
func triplesIn(language *text.Language, content string) []triples.Triple {
	var found []string
	for _, entity := range EntitiesIn(language, content) {
		found = append(found, entity.Name)
	}
	return dropNonProse(language, content, triples.FindByRule(language, "", content, found))
}

// dropNonProse leaves out triples of sentences that hold a line that is no prose: code and tables state no facts.
func dropNonProse(language *text.Language, content string, found []triples.Triple) []triples.Triple {
	lines := text.NotProse(content)
	if len(lines) == 0 {
		return found
	}
	silent := map[int]bool{}
	at := 0
	for n, sentence := range language.Sentences(content) {
		end := at + len(sentence)
		for _, line := range lines {
			silent[n] = silent[n] || (line[0] < end && at < line[1])
		}
		at = end
	}
	return slices.DeleteFunc(found, func(triple triples.Triple) bool { return silent[triple.Source.Sentence] })
}

// Summarize summarizes an English text, as SummaryIn does.
func Summarize(s string, limit int) string { return SummaryIn(english, s, limit) }

// SummaryIn keeps the sentences with the most frequent stems, in their order, up to limit runes; repeated sentences
// once.
func SummaryIn(language *text.Language, s string, limit int) string {
	sents := language.Sentences(s)
	tf := map[string]int{}
	terms := make([][]string, len(sents))
	for i, x := range sents {
		terms[i] = language.Terms(x)
		for _, t := range terms[i] {
			tf[t]++
		}
	}
	type scored struct {
		at    int
		score float64
	}
	var rank []scored
	seen := map[string]bool{}
	for i, x := range sents {
		k := strings.Join(strings.Fields(x), " ")
		if k == "" || seen[k] {
			continue
		}
		seen[k] = true
		sum := 0.0
		for _, t := range terms[i] {
			sum += float64(tf[t])
		}
		rank = append(rank, scored{i, sum / float64(len(terms[i])+4)})
	}
	sort.SliceStable(rank, func(i, j int) bool { return rank[i].score > rank[j].score })
	var keep []int
	n := 0
	for _, r := range rank {
		l := utf8.RuneCountInString(sents[r.at]) + 1
		if n > 0 && n+l > limit {
			continue
		}
		n += l
		keep = append(keep, r.at)
	}
	sort.Ints(keep)
	parts := make([]string, len(keep))
	for i, k := range keep {
		parts[i] = strings.Join(strings.Fields(sents[k]), " ")
	}
	return cutText(strings.Join(parts, " "), limit)
}

func cutText(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)[:limit]
	if i := strings.LastIndexByte(string(r), ' '); i > len(string(r))/2 {
		return string(r)[:i]
	}
	return string(r)
}
