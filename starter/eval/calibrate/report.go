package calibrate

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Report of a calibration.
type Report struct {
	At           time.Time `json:"at"`
	Seed         uint64    `json:"seed"`
	Cases        []Case    `json:"cases"`
	Coefficients []float64 `json:"coefficients"` // fitted to all cases
	Half         Quality   `json:"held_out_half"`
	Across       []Quality `json:"across"` // each corpus by a fit of the others
	All          Quality   `json:"across_all"`
	Kinds        []Kind    `json:"kinds"`
	Words        []float64 `json:"coefficients_by_words"` // of the model without similarity
	WordsAll     Quality   `json:"across_all_by_words"`
}

// Kind sums up what was told of one kind of cases by the fits that had not seen their corpus.
type Kind struct {
	Name  string  `json:"name"`
	Cases int     `json:"cases"`
	Was   float64 `json:"was"`  // share that was right
	Said  float64 `json:"said"` // mean chance
	Low   float64 `json:"low"`  // share told below retrieve.AnswerFloor

	NoMatch int `json:"no_match"` // further cases, answered no_match
}

// Calibrate fits to all cases, and measures fits on what they have not seen: the other half of the cases, and the
// corpus that was left out. Errors: fault.Usage where nothing, or everything, was right.
func Calibrate(cases []Case, seed uint64) (*Report, error) {
	unmatched, cases := parted(cases, func(c Case) bool { return c.NoMatch })
	right := slices.ContainsFunc(cases, func(c Case) bool { return c.Right })
	wrong := slices.ContainsFunc(cases, func(c Case) bool { return !c.Right })
	if !right || !wrong {
		return nil, fault.Usage.At("calibrate", "").Because("it takes cases that are right and cases that are wrong")
	}
	out := &Report{
		At: time.Now().UTC(), Seed: seed, Cases: cases, Coefficients: Fit(cases, BySimilarity), Words: Fit(cases, ByWords),
	}
	learnt, kept := parted(cases, func(c Case) bool { return half(c.ID, seed) })
	out.Half = Judge("the other half of the cases", Apply(Fit(learnt, BySimilarity), kept))
	var corpora []string
	for _, c := range cases {
		if !slices.Contains(corpora, c.Corpus) {
			corpora = append(corpora, c.Corpus)
		}
	}
	var all, byWords []Said
	for _, corpus := range corpora {
		kept, learnt := parted(cases, func(c Case) bool { return c.Corpus == corpus })
		said := Apply(Fit(learnt, BySimilarity), kept)
		out.Across = append(out.Across, Judge(corpus+", by the others", said))
		all = append(all, said...)
		byWords = append(byWords, Apply(Fit(learnt, ByWords), kept)...)
	}
	out.All = Judge("every corpus by the others", all)
	out.WordsAll = Judge("the same by words alone", byWords)
	for _, name := range []string{Own, Removed, Foreign, Noise} {
		kind, weight := Kind{Name: name}, 0.0
		for _, c := range unmatched {
			if c.Kind == name {
				kind.NoMatch++
			}
		}
		for _, said := range all {
			if said.Kind != name {
				continue
			}
			kind.Cases++
			weight += said.Weight
			kind.Said += said.Weight * said.Chance
			if said.Right {
				kind.Was += said.Weight
			}
			if said.Chance < retrieve.AnswerFloor {
				kind.Low += said.Weight
			}
		}
		if weight > 0 {
			kind.Was, kind.Said, kind.Low = kind.Was/weight, kind.Said/weight, kind.Low/weight
		}
		out.Kinds = append(out.Kinds, kind)
	}
	return out, nil
}

func parted(cases []Case, first func(Case) bool) (yes, no []Case) {
	for _, c := range cases {
		if first(c) {
			yes = append(yes, c)
		} else {
			no = append(no, c)
		}
	}
	return yes, no
}

// half parts questions, so that a question and the same without its gold passages stay together.
func half(id string, seed uint64) bool {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, id, seed)
	return hash.Sum64()>>32&1 == 0
}

// Markdown of the report.
func (r *Report) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Calibration: %d cases, %s UTC, seed %d\n\n",
		len(r.Cases), r.At.Format("2006-01-02 15:04"), r.Seed)
	fmt.Fprintf(&text, "coefficients: %.3f, by words alone: %.3f\n\n", r.Coefficients, r.Words)
	text.WriteString("| measured on | cases | ECE | Brier | of the mean alone | AUC |\n|---|---|---|---|---|---|\n")
	for _, quality := range append(append([]Quality{r.Half}, r.Across...), r.All, r.WordsAll) {
		fmt.Fprintf(&text, "| %s | %d | %.3f | %.3f | %.3f | %.3f |\n",
			quality.Name, quality.Cases, quality.ECE, quality.Brier, quality.Base, quality.AUC)
	}
	text.WriteString("\n| confidence | cases | share of the mix | told | was so |\n|---|---|---|---|---|\n")
	for _, bin := range r.All.Bins {
		if bin.Cases > 0 {
			fmt.Fprintf(&text, "| %.1f–%.1f | %d | %.1f %% | %.2f | %.2f |\n",
				bin.Low, bin.Low+0.1, bin.Cases, 100*bin.Weight, bin.Said, bin.Was)
		}
	}
	fmt.Fprintf(&text, "\n| kind | cases | was so | told | told below %.1f | further, no_match |\n",
		retrieve.AnswerFloor)
	text.WriteString("|---|---|---|---|---|---|\n")
	for _, kind := range r.Kinds {
		fmt.Fprintf(&text, "| %s | %d | %.2f | %.2f | %.0f %% | %d |\n",
			kind.Name, kind.Cases, kind.Was, kind.Said, 100*kind.Low, kind.NoMatch)
	}
	return text.String()
}

// SVG draws what was told against what was: points on the diagonal are well calibrated, their area is their share.
func (r *Report) SVG() string {
	const size, left, top = 320.0, 56.0, 36.0
	x := func(v float64) float64 { return left + size*v }
	y := func(v float64) float64 { return top + size*(1-v) }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" `+
		`font-family="system-ui, sans-serif" font-size="13" fill="#333">`+"\n", left+size+24, top+size+56)
	fmt.Fprintf(&out, "<title>Confidence told and what came of it, on corpora that the fit has not seen</title>\n")
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&out, `<text x="%.0f" y="20">Told and come true: every corpus by a fit of the others</text>`+"\n", left)
	for i := range 6 {
		v := float64(i) / 5
		fmt.Fprintf(&out, `<path d="M%.1f %.1fH%.1f M%.1f %.1fV%.1f" stroke="#ddd"/>`+"\n",
			x(0), y(v), x(1), x(v), y(0), y(1))
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="end">%.1f</text>`+"\n", x(0)-8, y(v)+4, v)
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="middle">%.1f</text>`+"\n", x(v), y(0)+20, v)
	}
	fmt.Fprintf(&out, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#888" stroke-dasharray="4 4"/>`+"\n", x(0), y(0), x(1), y(1))
	for _, bin := range r.All.Bins {
		if bin.Cases > 0 {
			fmt.Fprintf(&out, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="#1f6fb2" fill-opacity="0.75">`+
				"<title>%d cases: told %.2f, was %.2f</title></circle>\n",
				x(bin.Said), y(bin.Was), 3+26*math.Sqrt(bin.Weight), bin.Cases, bin.Said, bin.Was)
		}
	}
	fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="middle">confidence told</text>`+"\n", x(0.5), y(0)+42)
	fmt.Fprintf(&out, `<text transform="translate(16 %.1f) rotate(-90)" text-anchor="middle">share that was so</text>`+
		"\n</svg>\n", y(0.5))
	return out.String()
}

// Write puts calibration.md, calibration.json (with every case) and calibration.svg into a folder.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"calibration.md": []byte(r.Markdown()), "calibration.json": append(raw, '\n'), "calibration.svg": []byte(r.SVG()),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
