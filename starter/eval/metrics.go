package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Scores of one question at the cut-offs.
type Scores struct {
	Recall []float64 // at each k: share of gold passages among the first k documents
	All    []float64 // at each k: 1 when all gold passages are there
	MRR    float64
	NDCG   float64 // at the largest k
	F1     float64 // of the answer; NaN where it was not judged
}

// scoreRanking compares ranked passages (distinct, by their first chunk) with the gold.
func scoreRanking(ranked []string, gold []string, ks []int) Scores {
	scores := Scores{F1: math.NaN()}
	top := ks[len(ks)-1]
	for _, k := range ks {
		n := 0
		for _, id := range ranked[:min(k, len(ranked))] {
			if slices.Contains(gold, id) {
				n++
			}
		}
		scores.Recall = append(scores.Recall, float64(n)/float64(len(gold)))
		all := 0.0
		if n == len(gold) {
			all = 1
		}
		scores.All = append(scores.All, all)
	}
	dcg, ideal := 0.0, 0.0
	for i := range top {
		w := 1 / math.Log2(float64(i)+2)
		if i < len(gold) {
			ideal += w
		}
		if i < len(ranked) && slices.Contains(gold, ranked[i]) {
			dcg += w
			if scores.MRR == 0 {
				scores.MRR = 1 / float64(i+1)
			}
		}
	}
	scores.NDCG = dcg / ideal
	return scores
}

// Interval is a mean with its 95 % confidence interval, by bootstrap.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Resamples of a bootstrap.
const Resamples = 10_000

// drawResamples returns the resamples of n questions: the same for every method, so that differences are paired.
func drawResamples(n int, seed uint64) [][]int32 {
	random := rand.New(rand.NewPCG(seed, 0x756e7765))
	drawn := make([][]int32, Resamples)
	for i := range drawn {
		drawn[i] = make([]int32, n)
		for j := range drawn[i] {
			drawn[i][j] = int32(random.IntN(n))
		}
	}
	return drawn
}

// newInterval returns the interval of the mean of values over resamples.
func newInterval(values []float64, drawn [][]int32) Interval {
	means := make([]float64, len(drawn))
	for i, questions := range drawn {
		sum := 0.0
		for _, question := range questions {
			sum += values[question]
		}
		means[i] = sum / float64(len(questions))
	}
	sort.Float64s(means)
	total := 0.0
	for _, value := range values {
		total += value
	}
	return Interval{total / float64(len(values)), means[len(means)*25/1000], means[len(means)*975/1000]}
}

// quantile returns a quantile of values, by the nearest rank.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// variance returns the mean and the variance of a sample (n - 1).
func variance(v []float64) (mean, s2 float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(max(1, len(v)))
	for _, x := range v {
		s2 += (x - mean) * (x - mean)
	}
	if len(v) > 1 {
		s2 /= float64(len(v) - 1)
	}
	return mean, s2
}
