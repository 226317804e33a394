package calibrate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/starter/eval"
)

// Set is a dataset with its index.
type Set struct {
	Dataset *eval.Dataset
	Ask     eval.Asker
	Prefix  string // of document keys, before the id of the passage
}

// most cases of a kind and a corpus, and how many of them are noise.
const (
	most  = 400
	noise = 100
)

// question is one to ask of a set.
type question struct {
	eval.Question
	kind    string
	without []string // keys of documents
}

// Collect asks the questions of every set, and those that it cannot answer. It takes at least two sets. The same seed
// asks the same questions.
func Collect(ctx context.Context, sets []Set, seed uint64, workers int) ([]Case, error) {
	if len(sets) < 2 {
		return nil, fault.Usage.At("calibrate", "").Because("it takes at least two datasets").
			Advise("give --dataset folders with commas between them")
	}
	var out []Case
	for i, set := range sets {
		questions := asked(sets, i, seed)
		cases := make([]Case, len(questions))
		var mu sync.Mutex
		err := parallel.Each(ctx, len(questions), max(1, workers), func(ctx context.Context, n int) error {
			one, err := set.ask(ctx, questions[n])
			mu.Lock()
			defer mu.Unlock()
			cases[n] = one
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, cases...)
	}
	Weigh(out)
	return out, nil
}

// asked are the questions for a set.
func asked(sets []Set, at int, seed uint64) []question {
	random := rand.New(rand.NewPCG(seed, uint64(at)))
	sample := func(from []eval.Question) []eval.Question {
		shuffled := slices.Clone(from)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		return shuffled[:min(most, len(shuffled))]
	}
	var out []question
	for _, own := range sample(sets[at].Dataset.Questions) {
		var gold []string
		for id := range own.Gold {
			gold = append(gold, sets[at].Prefix+id)
		}
		slices.Sort(gold)
		out = append(out, question{own, Own, nil}, question{own, Removed, gold})
	}
	for other := range sets {
		if other != at {
			from := sample(sets[other].Dataset.Questions)
			for _, foreign := range from[:min(len(from), most/(len(sets)-1))] {
				foreign.ID, foreign.Gold = sets[other].Dataset.Name+"/"+foreign.ID, nil
				out = append(out, question{foreign, Foreign, nil})
			}
		}
	}
	for i := range noise {
		words := make([]string, 1+random.IntN(6))
		for j := range words {
			letters := make([]byte, 4+random.IntN(8))
			for k := range letters {
				letters[k] = byte('a' + random.IntN(26))
			}
			words[j] = string(letters)
		}
		out = append(out, question{
			eval.Question{ID: fmt.Sprint("noise-", i), Question: strings.Join(words, " ")}, Noise, nil,
		})
	}
	return out
}

// ask one question by hybrid.
func (s Set) ask(ctx context.Context, asked question) (Case, error) {
	out := Case{Corpus: s.Dataset.Name, Kind: asked.kind, ID: asked.ID}
	body := map[string]any{
		"query": asked.Question.Question, "method": retrieve.Hybrid, "top_chunks": 5, "explain": true,
	}
	if len(asked.without) > 0 {
		body["without"] = map[string]any{"documents": asked.without}
	}
	raw, err := s.Ask(ctx, body)
	var response struct {
		Reason string `json:"reason"`
		Chunks []struct {
			Document string `json:"document"`
		} `json:"chunks"`
		Explain struct {
			Signals retrieve.Signals `json:"signals"`
		} `json:"explain"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &response)
	}
	if err != nil {
		return out, fault.CodeOf(err).At("ask question", asked.ID).Because(err)
	}
	out.Signals, out.NoMatch = response.Explain.Signals, response.Reason == retrieve.NoMatch
	for _, chunk := range response.Chunks {
		out.Right = out.Right || asked.Gold[eval.Passage(chunk.Document)]
	}
	return out, nil
}
