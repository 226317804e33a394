// Package calibrate makes confidence mean something: it asks questions whose answers are known to be in an index or
// not, fits the chance that one of the first five chunks holds a gold passage to what the query knew
// (retrieve.Signals), and tells how far the chance can be believed on questions, and on corpora, that the fit has not
// seen.
package calibrate

import (
	"math"
	"sort"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// Kinds of cases.
const (
	Own     = "own"     // a question of the corpus
	Removed = "removed" // the same, its gold passages left out
	Foreign = "foreign" // a question of another corpus
	Noise   = "noise"   // words that are none
)

// Mix is how much the kinds of each corpus weigh together: what share of questions is taken to be of each kind.
var Mix = map[string]float64{Own: 0.6, Removed: 0.15, Foreign: 0.2, Noise: 0.05}

// Case is a question that was asked.
type Case struct {
	Corpus  string           `json:"corpus"`
	Kind    string           `json:"kind"`
	ID      string           `json:"id"`
	Signals retrieve.Signals `json:"signals"`
	NoMatch bool             `json:"no_match,omitempty"` // answered so: there is nothing to be confident of
	Right   bool             `json:"right"`              // one of the first five chunks is of a gold passage
	Weight  float64          `json:"weight"`             // filled in by Weigh
}

// Weigh gives the cases the weights of Mix: every corpus weighs 1.
func Weigh(cases []Case) {
	count := map[[2]string]float64{}
	total := map[string]float64{}
	for _, c := range cases {
		if count[[2]string{c.Corpus, c.Kind}]++; count[[2]string{c.Corpus, c.Kind}] == 1 {
			total[c.Corpus] += Mix[c.Kind]
		}
	}
	for i, c := range cases {
		cases[i].Weight = Mix[c.Kind] / count[[2]string{c.Corpus, c.Kind}] / total[c.Corpus]
	}
}

// ridge keeps coefficients finite where kinds can be told apart exactly. It is a share of the cases' weight.
const ridge = 1e-3

// steps of Newton's method that are enough for any start, with halving.
const steps = 60

// Models by how many coefficients they have: with all features, and without the last one, the similarity.
var (
	BySimilarity = 1 + len(retrieve.Signals{}.Features())
	ByWords      = BySimilarity - 1
)

// Fit gives the coefficients of a logistic model of the cases, size of them: the constant first, then
// retrieve.Signals.Features. The weighted log loss, with a small penalty on all but the constant, has one minimum.
func Fit(cases []Case, size int) []float64 {
	coefficients := make([]float64, size)
	rows := make([][]float64, len(cases))
	total := 0.0
	for i, c := range cases {
		rows[i] = append([]float64{1}, c.Signals.Features()[:size-1]...)
		total += c.Weight
	}
	penalty := ridge * total
	loss := func(at []float64) float64 {
		sum := 0.0
		for i, c := range cases {
			z := dot(at, rows[i])
			if !c.Right {
				z = -z
			}
			sum += c.Weight * math.Log1p(math.Exp(-z))
		}
		for _, value := range at[1:] {
			sum += penalty / 2 * value * value
		}
		return sum
	}
	now := loss(coefficients)
	for range steps {
		step := newton(cases, rows, coefficients, penalty)
		next := make([]float64, size)
		share, better := 1.0, math.Inf(1)
		for ; share > 1e-6; share /= 2 {
			for j := range next {
				next[j] = coefficients[j] + share*step[j]
			}
			if better = loss(next); better <= now {
				break
			}
		}
		if !(now-better > 1e-13) {
			break
		}
		copy(coefficients, next)
		now = better
	}
	return coefficients
}

// newton is the step of Newton's method.
func newton(cases []Case, rows [][]float64, at []float64, penalty float64) []float64 {
	size := len(at)
	gradient, hessian := make([]float64, size), make([][]float64, size)
	for j := range hessian {
		hessian[j] = make([]float64, size)
	}
	for i, c := range cases {
		chance := retrieve.Chance(at, c.Signals)
		off := -chance
		if c.Right {
			off++
		}
		for j, x := range rows[i] {
			gradient[j] += c.Weight * off * x
			for k, y := range rows[i] {
				hessian[j][k] += c.Weight * chance * (1 - chance) * x * y
			}
		}
	}
	for j := 1; j < size; j++ {
		gradient[j] -= penalty * at[j]
		hessian[j][j] += penalty
	}
	hessian[0][0] += 1e-12
	return solve(hessian, gradient)
}

// solve a small symmetric positive system by elimination with pivots.
func solve(matrix [][]float64, right []float64) []float64 {
	size := len(right)
	for column := range size {
		pivot := column
		for row := column; row < size; row++ {
			if math.Abs(matrix[row][column]) > math.Abs(matrix[pivot][column]) {
				pivot = row
			}
		}
		matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
		right[column], right[pivot] = right[pivot], right[column]
		for row := column + 1; row < size; row++ {
			factor := matrix[row][column] / matrix[column][column]
			for k := column; k < size; k++ {
				matrix[row][k] -= factor * matrix[column][k]
			}
			right[row] -= factor * right[column]
		}
	}
	out := make([]float64, size)
	for row := size - 1; row >= 0; row-- {
		sum := right[row]
		for k := row + 1; k < size; k++ {
			sum -= matrix[row][k] * out[k]
		}
		out[row] = sum / matrix[row][row]
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// Said is a chance that was told, and what came of it.
type Said struct {
	Case
	Chance float64
}

// Apply tells the chances of cases.
func Apply(coefficients []float64, cases []Case) []Said {
	out := make([]Said, len(cases))
	for i, c := range cases {
		out[i] = Said{c, retrieve.Chance(coefficients, c.Signals)}
	}
	return out
}

// Bin of a reliability table: the chances from Low to Low + 0.1.
type Bin struct {
	Low    float64 `json:"low"`
	Cases  int     `json:"cases"`
	Weight float64 `json:"weight"` // of all
	Said   float64 `json:"said"`   // mean chance
	Was    float64 `json:"was"`    // share that was right
}

// Quality of chances.
type Quality struct {
	Name  string  `json:"name"`
	Cases int     `json:"cases"`
	ECE   float64 `json:"ece"`   // mean distance between what was said and what was, over the bins
	Brier float64 `json:"brier"` // mean squared error
	Base  float64 `json:"base"`  // Brier score of always telling the mean
	AUC   float64 `json:"auc"`   // chance that a right case was told more than a wrong one
	Bins  []Bin   `json:"bins"`
}

// bins of a reliability table.
const bins = 10

// Judge measures chances.
func Judge(name string, said []Said) Quality {
	out := Quality{Name: name, Cases: len(said), Bins: make([]Bin, bins)}
	total, right := 0.0, 0.0
	for _, s := range said {
		bin := &out.Bins[min(bins-1, int(s.Chance*bins))]
		bin.Cases++
		bin.Weight += s.Weight
		bin.Said += s.Weight * s.Chance
		was := 0.0
		if s.Right {
			was = 1
		}
		bin.Was += s.Weight * was
		out.Brier += s.Weight * (s.Chance - was) * (s.Chance - was)
		total += s.Weight
		right += s.Weight * was
	}
	for i := range out.Bins {
		bin := &out.Bins[i]
		bin.Low = float64(i) / bins
		if bin.Weight > 0 {
			bin.Said, bin.Was = bin.Said/bin.Weight, bin.Was/bin.Weight
		}
		bin.Weight /= total
		out.ECE += bin.Weight * math.Abs(bin.Said-bin.Was)
	}
	mean := right / total
	out.Brier, out.Base, out.AUC = out.Brier/total, mean*(1-mean), auc(said)
	return out
}

// auc counts pairs; equal chances count half.
func auc(said []Said) float64 {
	sorted := append([]Said(nil), said...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Chance < sorted[j].Chance })
	below, pairs, rightWeight, wrongWeight := 0.0, 0.0, 0.0, 0.0
	for i := 0; i < len(sorted); {
		wrong, right, j := 0.0, 0.0, i
		for ; j < len(sorted) && sorted[j].Chance == sorted[i].Chance; j++ {
			if sorted[j].Right {
				right += sorted[j].Weight
			} else {
				wrong += sorted[j].Weight
			}
		}
		pairs += right * (below + wrong/2)
		below += wrong
		rightWeight, wrongWeight = rightWeight+right, wrongWeight+wrong
		i = j
	}
	return pairs / (rightWeight * wrongWeight)
}
