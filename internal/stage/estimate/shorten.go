package estimate

import (
	"context"
	"iter"
	"math"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
)

// Class is a class of the parent.
type Class struct {
	Runes    int           // of its final text
	Chunks   int64         // that named it when its text was made
	Mentions int64         // and how often
	Keys     []core.Digest // of the ledger, where it was shortened
}

// Classes streams the classes of a generation.
func Classes(ctx context.Context, art artifact.Index, manifest *core.Manifest) iter.Seq2[Class, error] {
	return func(yield func(Class, error) bool) {
		for _, segment := range manifest.Segments.Classes {
			for row, err := range artifact.ScanAll(ctx, art.Store, art.SegmentKey(segment.SHA256)) {
				var class Class
				if err == nil {
					class, err = decode(row.Value)
				}
				if !yield(class, err) || err != nil {
					return
				}
			}
		}
	}
}

func decode(value []byte) (Class, error) {
	row, err := rows.DecodeClass(value)
	if err != nil {
		return Class{}, err
	}
	record, err := rows.DecodeRecord(row.Record)
	class := Class{
		Runes: utf8.RuneCountInString(record.Text), Chunks: row.Chunks, Mentions: row.Mentions, Keys: row.Keys,
	}
	return class, err
}

// Looker is the part of the ledger that a look needs.
type Looker interface {
	Get(ctx context.Context, task string, key core.Digest, attempt int) (*ledger.Entry, error)
}

// ShortenIn is what the cost of shortening is estimated from.
type ShortenIn struct {
	Paid       bool // by a model that costs something; else the estimate is zero
	Shortening core.Shortening
	Parity     bool                    // no sample: every mention counts
	Again      bool                    // the parent was shortened by another model, threshold or sample
	Parent     core.Counts             // zero: no parent
	Classes    iter.Seq2[Class, error] // of the parent; nil: no parent
	New        New
	Ledger     Looker
}

const (
	// sure is how many new mentions a class must expect before its text is as good as certain to change: none of
	// them comes with a probability of 5 %.
	sure = 3.0
	// lookups bounds how many keys of the parent are looked up; what is missing among them stands for all.
	lookups = 2000
	// blockRunes is a usual block of a long text, and maxBlockRunes the longest; a call has one of them.
	blockRunes    = 9_000
	maxBlockRunes = 24_000
	// callTokens are the instructions of a call.
	callTokens = 100
)

// Shorten estimates the calls that bring long class texts under the threshold.
//
// A class that stands in a share q of the parent's chunks expects q·n new mentions of n new chunks, and as many fewer
// of them in its text as its sample is smaller than its mentions: λ. Its text changes with probability 1−exp(−λ).
//
//	low   long classes with λ of at least 3 in chunks that no run ever extracted: one call each, for the block that
//	      changed
//	high  long classes by their probability: two blocks for each new mention and the whole, at most what they took;
//	      and classes that a new mention could make long
//
// Calls whose entry the ledger has lost are paid again in any case. Without a parent nothing is sure; high is the part
// of the new descriptions that common classes hold.
func Shorten(ctx context.Context, in ShortenIn) (Task, error) {
	if !in.Paid {
		return Task{}, nil
	}
	if in.Classes == nil || in.Parent.Chunks == 0 {
		return in.first(), nil
	}
	s := shortening{ShortenIn: in}
	for class, err := range in.Classes {
		if err != nil {
			return Task{}, err
		}
		if err := s.class(ctx, class); err != nil {
			return Task{}, err
		}
	}
	return s.task(), nil
}

// first is the estimate without a parent. The share of the descriptions that classes over the threshold hold grew with
// the root of the number of chunks (1.0 % of 500, 1.3 % of 1,000, 2.1 % of 1,890); three times that is allowed for.
func (in ShortenIn) first() Task {
	_, mentions := rates(core.Counts{}, in.New)
	runes := mentions * float64(in.New.Chunks) * mentionRunes
	common := min(0.5, 3*0.0005*math.Sqrt(float64(in.New.Chunks)))
	return in.priced(0, runes*common/float64(max(in.Shortening.Threshold, 1)), blockRunes)
}

// priced gives calls their tokens; runes is what a call has at most.
func (in ShortenIn) priced(low, high, runes float64) Task {
	least := float64(min(in.Shortening.Threshold, blockRunes)) / runesPerToken
	longest := min(max(runes, float64(in.Shortening.Threshold)), maxBlockRunes) / runesPerToken
	limit := float64(in.Shortening.Threshold) / runesPerToken
	return Task{
		Calls:      Range{int64(low), ceil(high)},
		Prompt:     Range{int64(low * (callTokens + least)), ceil(high * (callTokens + longest))},
		Completion: Range{int64(low * limit / 8), ceil(high * limit)},
	}
}

// shortening walks the parent's classes.
type shortening struct {
	ShortenIn
	low, high     float64
	looked, lost  int64
	unchanged     float64 // calls that are expected to be answered by the ledger
	runes         float64 // of short class texts
	mentions      float64 // in them
	near          []near
	longRunes     float64 // mentions of long texts, for each call of high
	longRunesCall float64
}

// near is a class that a few mentions could make long.
type near struct {
	runes  float64
	lambda float64
}

func (s *shortening) class(ctx context.Context, class Class) error {
	share := float64(class.Chunks) / float64(s.Parent.Chunks)
	sampled := float64(class.Mentions)
	if !s.Parity && s.Shortening.Sample > 0 && class.Mentions > int64(s.Shortening.Sample) {
		sampled = float64(s.Shortening.Sample)
		share *= sampled / float64(class.Mentions)
	}
	lambda := share * float64(s.New.Chunks+s.New.Gone)
	changes := 1 - math.Exp(-lambda)
	if len(class.Keys) == 0 && class.Runes <= s.Shortening.Threshold {
		s.runes += float64(class.Runes)
		s.mentions += float64(max(class.Mentions, 1))
		if lambda > 0 && 2*class.Runes > s.Shortening.Threshold {
			s.near = append(s.near, near{float64(class.Runes), lambda})
		}
		return nil
	}
	calls := float64(max(len(class.Keys), 1))
	high := changes * min(calls, 2*max(1, math.Ceil(lambda))+1)
	switch {
	case s.Again:
		high = calls
		s.low += calls
	case share*float64(s.New.Unseen) >= sure:
		s.low++
	}
	s.high += high
	s.unchanged += max(0, calls-high)
	s.longRunes += high * sampled / calls
	s.longRunesCall += high
	return s.look(ctx, class)
}

// look asks the ledger for what the parent paid, so that a loss of it is not a surprise.
func (s *shortening) look(ctx context.Context, class Class) error {
	if s.Again {
		return nil
	}
	for _, key := range class.Keys {
		if s.looked == lookups {
			return nil
		}
		entry, err := s.Ledger.Get(ctx, ledger.Shorten, key, 0)
		if err != nil {
			return err
		}
		s.looked++
		if entry == nil {
			s.lost++
		}
	}
	return nil
}

func (s *shortening) task() Task {
	description := mentionRunes
	if s.mentions > 0 {
		description = s.runes / s.mentions
	}
	for _, class := range s.near {
		if class.runes+description*max(1, math.Ceil(class.lambda)) > float64(s.Shortening.Threshold) {
			s.high += 1 - math.Exp(-class.lambda)
		}
	}
	if s.looked > 0 {
		lost := s.unchanged * float64(s.lost) / float64(s.looked)
		s.low += lost
		s.high += lost
	}
	runes := float64(blockRunes)
	if s.longRunesCall > 0 {
		runes = description * s.longRunes / s.longRunesCall
	}
	return s.priced(s.low, max(s.high, s.low), runes)
}
