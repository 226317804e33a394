package core

import (
	"cmp"
	"slices"
	"time"
)

// Moment is how far a run was, and what it had paid for, at one time.
type Moment struct {
	Seconds float64 `json:"seconds"` // since it began
	Stage   string  `json:"stage,omitempty"`
	Share   float64 `json:"share"` // of all its work, about, 0 to 1
	Calls   int64   `json:"calls"`
	Tokens  int64   `json:"tokens"`
	Cost    float64 `json:"cost"`
}

// mostMoments bounds the course of a run. Of a longer one every second moment between the first and the last is left
// out, so that it stays one of the whole run.
const mostMoments = 240

// MergeMoments adds moments to what is known of a run's course, in the order of time, and keeps it bounded. What comes
// twice stands once: activities may be repeated.
func MergeMoments(known []Moment, more ...Moment) []Moment {
	all := slices.SortedStableFunc(slices.Values(slices.Concat(known, more)), func(one, two Moment) int {
		return cmp.Or(cmp.Compare(one.Seconds, two.Seconds), cmp.Compare(one.Share, two.Share))
	})
	all = slices.Compact(all)
	for len(all) > mostMoments {
		kept := all[:0:0]
		for i, moment := range all {
			if i%2 == 0 || i == len(all)-1 {
				kept = append(kept, moment)
			}
		}
		all = kept
	}
	return all
}

// MomentEvery returns how far moments of a run are apart that has gone on for so long: a twelfth of a minute at first,
// then a hundred and twentieth of it.
func MomentEvery(sofar time.Duration) time.Duration { return max(5*time.Second, sofar/(mostMoments/2)) }

// ToMoment returns how far a report says that its run is.
func (r Report) ToMoment(stage string, share float64) Moment {
	return Moment{
		Seconds: r.Seconds, Stage: stage, Share: share, Calls: r.Calls.Sum(), Tokens: r.Tokens.Sum(), Cost: r.Cost,
	}
}

// Sum returns the number of tokens of all kinds.
func (t Tokens) Sum() int64 { return t.Prompt + t.Completion + t.Embedding }
