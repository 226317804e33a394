package calibrate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/starter/eval"
	"github.com/unweaver/unweaver/starter/eval/calibrate"
)

// sample is a part of the cases that the product's coefficients were fitted to.
func sample(t *testing.T) []calibrate.Case {
	t.Helper()
	file, err := os.Open("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var out []calibrate.Case
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var one calibrate.Case
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	calibrate.Weigh(out)
	return out
}

func TestTheProductsConfidenceCanBeBelievedOnTheSample(t *testing.T) {
	var said []calibrate.Said
	for _, one := range sample(t) {
		said = append(said, calibrate.Said{Case: one, Chance: *one.Signals.Confidence()})
	}
	quality := calibrate.Judge("sample", said)
	if quality.ECE > 0.08 || quality.AUC < 0.85 || quality.Brier > 0.7*quality.Base {
		t.Errorf("%+v", quality)
	}
}

func TestAFitOfTheSampleIsNearTheProduct(t *testing.T) {
	cases := sample(t)
	fitted := calibrate.Fit(cases, calibrate.BySimilarity)
	distance := 0.0
	for _, said := range calibrate.Apply(fitted, cases) {
		distance += said.Weight * math.Abs(said.Chance-*said.Signals.Confidence())
	}
	if distance /= 3; distance > 0.05 { // three corpora of weight 1
		t.Errorf("a fit of a tenth of the cases is %.3f away: %.2f", distance, fitted)
	}
}

// drawn are cases whose chances follow known coefficients.
func drawn(coefficients []float64, n int) []calibrate.Case {
	random := rand.New(rand.NewPCG(5, 5))
	var out []calibrate.Case
	for range n {
		similarity := random.Float64()
		one := calibrate.Case{Corpus: "a", Kind: calibrate.Own, Signals: retrieve.Signals{
			Known: random.Float64(), Together: random.Float64(), Lead: random.Float64(), Terms: random.IntN(12),
			Similarity: &similarity,
		}}
		one.Right = random.Float64() < retrieve.Chance(coefficients, one.Signals)
		out = append(out, one)
	}
	calibrate.Weigh(out)
	return out
}

func TestAFitFindsTheCoefficientsThatCasesWereDrawnBy(t *testing.T) {
	want := []float64{-4, 2, -1, 3, 0.5, 2.5}
	cases := drawn(want, 20_000)
	got := calibrate.Fit(cases, calibrate.BySimilarity)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 0.35 {
			t.Fatalf("got %.2f, want %.2f", got, want)
		}
	}
	if quality := calibrate.Judge("", calibrate.Apply(got, cases)); quality.ECE > 0.02 {
		t.Errorf("%+v", quality)
	}
	if words := calibrate.Fit(cases, calibrate.ByWords); len(words) != len(want)-1 {
		t.Errorf("by words: %v", words)
	}
}

func TestAFitOfCasesThatCanBeToldApartEnds(t *testing.T) {
	var cases []calibrate.Case
	for i := range 40 {
		one := calibrate.Case{Corpus: "a", Kind: calibrate.Own, Right: i%2 == 0}
		if one.Right {
			one.Signals.Together = 1
		}
		cases = append(cases, one)
	}
	calibrate.Weigh(cases)
	for _, value := range calibrate.Fit(cases, calibrate.ByWords) {
		if math.IsNaN(value) || math.Abs(value) > 100 {
			t.Errorf("%v", value)
		}
	}
	if _, err := calibrate.Calibrate(cases[:1], 1); err == nil {
		t.Error("nothing can be learnt of what is always right")
	}
}

func TestQualityIsCountedByHand(t *testing.T) {
	said := func(chance float64, right bool) calibrate.Said {
		return calibrate.Said{Case: calibrate.Case{Right: right, Weight: 1}, Chance: chance}
	}
	got := calibrate.Judge("", []calibrate.Said{said(0.1, false), said(0.15, true), said(0.9, true), said(0.9, false)})
	if math.Abs(got.ECE-(0.5*0.375+0.5*0.4)) > 1e-9 || math.Abs(got.Brier-(0.01+0.7225+0.01+0.81)/4) > 1e-9 ||
		got.Base != 0.25 || math.Abs(got.AUC-0.625) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if got.Bins[1].Cases != 2 || got.Bins[9].Was != 0.5 {
		t.Errorf("%+v", got.Bins)
	}
}

// folder is a dataset of passages that say their own name.
func folder(t *testing.T, name string, n int) *eval.Dataset {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	var passages, questions strings.Builder
	for i := range n {
		fmt.Fprintf(&passages, `{"id":"p%d","title":"","text":"%s %d"}`+"\n", i, name, i)
		fmt.Fprintf(&questions, `{"id":"q%d","question":"%s %d?","gold":["p%d"]}`+"\n", i, name, i, i)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"corpus.jsonl": passages.String(), "questions.jsonl": questions.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dataset, err := eval.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dataset
}

func TestEveryCorpusIsAskedWhatItCanAnswerAndWhatItCannot(t *testing.T) {
	var sets []calibrate.Set
	for _, name := range []string{"apples", "pears"} {
		dataset := folder(t, name, 12)
		var mu sync.Mutex
		sets = append(sets, calibrate.Set{
			Dataset: dataset, Prefix: "corpus.jsonl#",
			Ask: func(_ context.Context, body map[string]any) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				question, without := body["query"].(string), fmt.Sprint(body["without"])
				var number int
				if _, err := fmt.Sscanf(question, name+" %d?", &number); err != nil {
					if strings.ContainsAny(question, "?") {
						return []byte(`{"chunks":[{"document":"corpus.jsonl#p0"}],"explain":{"signals":{"known":0.1}}}`), nil
					}
					return []byte(`{"chunks":[],"reason":"no_match"}`), nil
				}
				gold := fmt.Sprintf("corpus.jsonl#p%d", number)
				if strings.Contains(without, gold) {
					gold = "corpus.jsonl#other"
				}
				return fmt.Appendf(nil, `{"chunks":[{"document":%q}],"explain":{"signals":{"known":0.9,"lead":0.5}}}`, gold), nil
			},
		})
	}
	cases, err := calibrate.Collect(t.Context(), sets, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, one := range cases {
		if count[one.Kind]++; one.Right != (one.Kind == calibrate.Own) || one.NoMatch != (one.Kind == calibrate.Noise) {
			t.Fatalf("%+v", one)
		}
	}
	if count[calibrate.Own] != 24 || count[calibrate.Removed] != 24 || count[calibrate.Foreign] != 24 {
		t.Errorf("%v", count)
	}
	again, err := calibrate.Collect(t.Context(), sets, 1, 1)
	same := func(a, b calibrate.Case) bool { return a.ID == b.ID && a.Kind == b.Kind }
	if err != nil || !slices.EqualFunc(cases, again, same) {
		t.Errorf("the same seed asked something else: %v", err)
	}
	report, err := calibrate.Calibrate(cases, 1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := report.Write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "calibration.md"))
	row := fmt.Sprintf("| noise | 0 | 0.00 | 0.00 | 0 %% | %d |", count[calibrate.Noise])
	if err != nil || !strings.Contains(string(raw), row) {
		t.Errorf("%s %v", raw, err)
	}
	if _, err := calibrate.Collect(t.Context(), sets[:1], 1, 1); err == nil {
		t.Error("one set has nobody to ask it what it cannot answer")
	}
}
