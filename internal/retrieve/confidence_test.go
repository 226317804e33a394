package retrieve_test

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func TestConfidenceIsHigherTheMoreOfTheQuestionIsFound(t *testing.T) {
	o := open(t, retrievetest.Options{})
	last := 1.0
	for _, question := range []string{
		"Who reached the South Pole first?",
		"Who reached the South Pole by balloon in summer?",
		"cricket chess croquet hockey pole",
	} {
		result := o.run(t, o.query(t, "hybrid", question))
		if result.Confidence == nil || *result.Confidence >= last || *result.Confidence <= 0 {
			t.Fatalf("%q: %v after %.3f", question, result.Confidence, last)
		}
		last = *result.Confidence
	}
	if last > 0.2 {
		t.Errorf("one word of five fits, and confidence is %.3f", last)
	}
}

func TestConfidenceIsMadeOfTheSignalsThatAreExplained(t *testing.T) {
	o := open(t, retrievetest.Options{})
	result := o.run(t, o.query(t, "hybrid", "Which ship sailed to Mars?")) // "mars" is not indexed
	signals := result.Explain.(retrieve.HybridExplain).Signals
	if signals.Terms != 3 || signals.Known <= 0 || signals.Known >= 1 || signals.Together != signals.Known ||
		signals.Lead != 1 || signals.Similarity == nil || *signals.Similarity <= 0 {
		t.Fatalf("%+v", signals)
	}
	if want := *signals.Confidence(); result.Confidence == nil || *result.Confidence != want {
		t.Errorf("%v, and the signals say %v", result.Confidence, want)
	}
}

func TestConfidenceIsNotToldWhereItIsNotKnown(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrieve.Methods().Plain() {
		result := o.run(t, o.query(t, method, "Who reached the South Pole?"))
		if told := result.Confidence != nil; told != (method == retrieve.Hybrid) {
			t.Errorf("%s: told %v: hybrid alone was calibrated", method, told)
		}
	}
	degraded := o.query(t, "hybrid", "Who reached the South Pole?")
	degraded.Vector = nil
	byWords := o.run(t, degraded)
	if byWords.Confidence == nil || byWords.Explain.(retrieve.HybridExplain).Signals.Similarity != nil {
		t.Errorf("without vectors, words can tell: %v", byWords.Confidence)
	}
	foreign := o.query(t, "hybrid", "Hvem nådde Sydpolen først fra Norway?")
	foreign.Vector = nil
	if result := o.run(t, foreign); result.Confidence != nil {
		t.Errorf("most words are unknown, and words alone tell %.2f", *result.Confidence)
	}
}

func TestWhereAnotherEmbedderServedItsSimilaritiesDoNotCount(t *testing.T) {
	o := open(t, retrievetest.Options{Edit: func(manifest *core.Manifest) { manifest.Class.Provider = "openai" }})
	query := o.query(t, "hybrid", "Who reached the South Pole first?")
	result := o.run(t, query)
	if result.Confidence == nil || result.Explain.(retrieve.HybridExplain).Signals.Similarity != nil {
		t.Errorf("%v", result.Confidence)
	}
	if result = o.run(t, o.query(t, "hybrid", "zzzq wxyv")); result.Reason != "" {
		t.Errorf("how similar is enough is not known of it, and yet %s", result.Reason)
	}
}

// Promises: 107.
func TestWordsThatMeanNothingMatchNothingByDefault(t *testing.T) {
	o := open(t, retrievetest.Options{})
	for _, method := range retrieve.Methods().Plain() {
		query := o.query(t, method, "asdfghjkl qwertyuiop")
		query.MinSim = 0
		if result := o.run(t, query); result.Reason != retrieve.NoMatch || len(result.Chunks) != 0 {
			t.Errorf("%s: %q, %d chunks", method, result.Reason, len(result.Chunks))
		}
		query = o.query(t, method, "Amundsens expedition") // no word of it is indexed, but it looks like one
		query.MinSim = 0
		if result := o.run(t, query); method != retrieve.BM25 && result.Reason != "" {
			t.Errorf("%s: a word that is nearly one of the index is no match", method)
		}
	}
	query := o.query(t, "hybrid", "asdfghjkl qwertyuiop")
	if query.MinSim = -1; o.run(t, query).Reason != "" {
		t.Error("min_similarity -1 lets everything match")
	}
}

func TestAChanceIsOne(t *testing.T) {
	if got := retrieve.Chance([]float64{0}, retrieve.Signals{}); got != 0.5 {
		t.Errorf("%v", got)
	}
	similarity := 1.0
	full := retrieve.Signals{Known: 1, Together: 1, Lead: 1, Terms: 1 << 20, Similarity: &similarity}
	if most := *full.Confidence(); most > 1 || math.IsNaN(most) || most < 0.9 {
		t.Errorf("%v", most)
	}
}

// asked is a question that was asked of a corpus: testdata/confidence.
type asked struct {
	Corpus, Kind string
	Signals      retrieve.Signals
	Right        bool // one of the first five chunks is of a gold passage
}

// sample is a part of the cases that the coefficients were fitted to, each with its weight: corpora weigh the same, and
// in each the kinds as docs/retrieval.md (Confidence) says.
func sample(t *testing.T) (cases []asked, weights []float64) {
	t.Helper()
	file, err := os.Open("testdata/confidence/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	count := map[[2]string]float64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var one asked
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, one)
		count[[2]string{one.Corpus, one.Kind}]++
	}
	mix, total := map[string]float64{"own": 0.6, "removed": 0.15, "foreign": 0.2, "noise": 0.05}, map[string]float64{}
	for of := range count {
		total[of[0]] += mix[of[1]]
	}
	for _, one := range cases {
		weights = append(weights, mix[one.Kind]/count[[2]string{one.Corpus, one.Kind}]/total[one.Corpus])
	}
	return cases, weights
}

// Promises: 106.
func TestConfidenceCanBeBelievedOnTheSample(t *testing.T) {
	cases, weights := sample(t)
	var said, was [10]float64
	brier, right, total, pairs, ordered := 0.0, 0.0, 0.0, 0.0, 0.0
	for i, one := range cases {
		chance, truth := *one.Signals.Confidence(), 0.0
		if one.Right {
			truth = 1
		}
		bin := min(9, int(10*chance))
		said[bin] += weights[i] * chance
		was[bin] += weights[i] * truth
		brier += weights[i] * (chance - truth) * (chance - truth)
		right, total = right+weights[i]*truth, total+weights[i]
		for j, other := range cases {
			if !one.Right || other.Right {
				continue
			}
			pair, below := weights[i]*weights[j], *other.Signals.Confidence()
			if pairs += pair; below < chance {
				ordered += pair
			} else if below == chance {
				ordered += pair / 2
			}
		}
	}
	distance := 0.0
	for bin := range said {
		distance += math.Abs(said[bin]-was[bin]) / total
	}
	mean := right / total
	if len(cases) != 375 || distance > 0.08 || ordered/pairs < 0.85 || brier/total > 0.7*mean*(1-mean) {
		t.Errorf("%d cases: distance from the truth %.3f, AUC %.3f, Brier %.3f of %.3f", len(cases), distance,
			ordered/pairs, brier/total, mean*(1-mean))
	}
}
