package app

import (
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/limits"
)

// liveFor is how long limits count that a run was given while it runs, after the last look of this process at its
// control record. While units of it work here that is every second; afterwards the configuration counts again.
const liveFor = time.Minute

// live are the limits of the models of an index.
type live struct {
	configured core.Limits
	given      *core.LiveLimits // nil: none
	at         time.Time        // when given was last reported
	rates      *limits.Rates
}

// currentLimits gives the limits that count.
func (l *live) currentLimits() core.Limits {
	if time.Since(l.at) > liveFor {
		l.given = nil
	}
	return l.given.ApplyTo(l.configured)
}

// configureLimits gives the limits of an index of this configuration. The caller holds the lock.
func (m *Models) configureLimits(spec core.Spec) (core.Limits, *limits.Rates) {
	known := m.live[spec.Index]
	if known == nil {
		known = &live{rates: limits.NewRates(0, 0)}
		m.live[spec.Index] = known
	}
	known.configured = spec.Limits
	now := known.currentLimits()
	known.rates.Set(now.RequestsPerMinute, now.TokensPerMinute)
	return now, known.rates
}

// SetLimits gives the models of an index, those that are in use too, other limits than the configured ones: a run of
// the index was given them. Nil takes them back. It is to be called again and again while they count.
func (m *Models) SetLimits(index string, given *core.LiveLimits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live[index] == nil && given != nil {
		m.live[index] = &live{rates: limits.NewRates(0, 0)}
	}
	for name, known := range m.live {
		if name == index || strings.HasPrefix(name, index+ofModel) {
			m.changeLimits(name, known, given)
		}
	}
}

// changeLimits gives the limits of an index, or of one of its models. The caller holds the lock.
func (m *Models) changeLimits(index string, known *live, given *core.LiveLimits) {
	before := known.given.ApplyTo(known.configured)
	known.given, known.at = given, time.Now()
	now := known.currentLimits()
	if now == before {
		return
	}
	known.rates.Set(now.RequestsPerMinute, now.TokensPerMinute)
	for _, gate := range m.gates {
		gate.ChangeLimit(index, now.Concurrency)
	}
}
