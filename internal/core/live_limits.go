package core

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// MaxConcurrency is what a run may be given of calls in flight, and MaxRate of requests or tokens a minute.
const (
	MaxConcurrency = 100_000
	MaxRate        = 1_000_000_000_000
)

// LiveLimits are limits that a run is given while it runs. What is nil stays as it was.
type LiveLimits struct {
	Concurrency       *int `json:"concurrency,omitempty"`         // calls in flight to an endpoint, 1 at least
	RequestsPerMinute *int `json:"requests_per_minute,omitempty"` // 0: none
	TokensPerMinute   *int `json:"tokens_per_minute,omitempty"`   // 0: none
}

// Check says what is wrong with them, in one sentence.
func (l LiveLimits) Check() error {
	if c := l.Concurrency; c != nil && (*c < 1 || *c > MaxConcurrency) {
		return fmt.Errorf("concurrency: want 1 to %d, got %d; to have no call start, pause the run", MaxConcurrency, *c)
	}
	for name, rate := range map[string]*int{
		"requests_per_minute": l.RequestsPerMinute, "tokens_per_minute": l.TokensPerMinute,
	} {
		if rate != nil && (*rate < 0 || *rate > MaxRate) {
			return fmt.Errorf("%s: want 0, which is no limit, to %d, got %d", name, MaxRate, *rate)
		}
	}
	if l == (LiveLimits{}) {
		return errors.New("no limit is given")
	}
	return nil
}

// LayOver lays l over older ones.
func (l LiveLimits) LayOver(older LiveLimits) LiveLimits {
	return LiveLimits{
		Concurrency:       cmp.Or(l.Concurrency, older.Concurrency),
		RequestsPerMinute: cmp.Or(l.RequestsPerMinute, older.RequestsPerMinute),
		TokensPerMinute:   cmp.Or(l.TokensPerMinute, older.TokensPerMinute),
	}
}

// ApplyTo gives the limits that count where these were configured. A nil l changes nothing.
func (l *LiveLimits) ApplyTo(configured Limits) Limits {
	if l == nil {
		return configured
	}
	if l.Concurrency != nil {
		configured.Concurrency = *l.Concurrency
	}
	if l.RequestsPerMinute != nil {
		configured.RequestsPerMinute = *l.RequestsPerMinute
	}
	if l.TokensPerMinute != nil {
		configured.TokensPerMinute = *l.TokensPerMinute
	}
	return configured
}

// String names them, as the audit trail does.
func (l LiveLimits) String() string {
	var parts []string
	for _, one := range []struct {
		format string
		value  *int
	}{
		{"concurrency %d", l.Concurrency}, {"%d requests a minute", l.RequestsPerMinute},
		{"%d tokens a minute", l.TokensPerMinute},
	} {
		if one.value != nil {
			parts = append(parts, fmt.Sprintf(one.format, *one.value))
		}
	}
	return strings.Join(parts, ", ")
}
