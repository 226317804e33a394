package config

import (
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strings"
)

// Quota bounds what each key that a pattern matches, or the people of each group together, may use in a day of UTC;
// Concurrent is of one process. nil is no bound.
type Quota struct {
	Keys       string   `yaml:"keys,omitempty"`
	Groups     string   `yaml:"groups,omitempty"`
	Requests   *float64 `yaml:"requests,omitempty"`
	Answers    *float64 `yaml:"answers,omitempty"`
	Tokens     *float64 `yaml:"tokens,omitempty"`
	Money      *float64 `yaml:"money,omitempty"`
	Concurrent *float64 `yaml:"concurrent,omitempty"`
}

const (
	mostQuotas = 1000
	mostCount  = 1e15 // what Redis counts exactly
	mostMoney  = 1e12
	// FineMoney is the largest quota of money that is counted in billionths; a larger one is counted in thousandths.
	FineMoney = 1e6
)

// limit is one of a quota's, as the file has it.
type limit struct {
	name        string
	least, most float64
	value       *float64
}

func (q Quota) listLimits() []limit {
	return []limit{
		{"requests", 0, mostCount, q.Requests}, {"answers", 0, mostCount, q.Answers}, {"tokens", 0, mostCount, q.Tokens},
		{"money", 0, mostMoney, q.Money}, {"concurrent", 1, million, q.Concurrent},
	}
}

// Matches reports whether a quota is for a key with one of these names.
func (q Quota) Matches(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return matchesName(q.Keys, name) })
}

// MatchesGroup reports whether a quota is for a group.
func (q Quota) MatchesGroup(group string) bool { return matchesName(q.Groups, group) }

// matchesName reports whether a pattern is for a name. A star stands for any characters; no pattern is for none.
func matchesName(pattern, name string) bool {
	plain := func(text string) string { return strings.ReplaceAll(text, "/", "\x00") } // path.Match stops at a slash
	fits, err := path.Match(plain(pattern), plain(name))
	return pattern != "" && (err == nil && fits || name == pattern)
}

// checkQuotas checks the quotas, and what they ask of each other.
func (l *loader) checkQuotas() {
	quotas, first := l.cfg.QueryAPI.Quotas, map[string]int{}
	if len(quotas) > mostQuotas {
		l.checkKey(false, "query_api.quotas", "want at most %d, got %d; one pattern can match many keys", mostQuotas,
			len(quotas))
		quotas = nil
	}
	for i, quota := range quotas {
		at := fmt.Sprintf("query_api.quotas.%d", i)
		l.checkSubjects(at, i, quota)
		name, field := "keys "+quota.Keys, at+".keys"
		if quota.Groups != "" {
			name, field = "groups "+quota.Groups, at+".groups"
		}
		before, twice := first[name]
		l.checkKey(!twice, field, "%q stands in entry %d too, which is the one that counts", quota.Keys+quota.Groups, before)
		first[name] = i
		given := slices.ContainsFunc(quota.listLimits(), func(one limit) bool { return one.value != nil })
		l.checkKey(given, at, "it bounds nothing; set requests, answers, tokens, money or concurrent")
		for _, one := range quota.listLimits() {
			if one.value != nil {
				whole := one.name == "money" || *one.value == math.Trunc(*one.value)
				l.checkKey(whole && *one.value >= one.least && *one.value <= one.most, at+"."+one.name,
					"want a number from %s to %s, got %v", formatFloat(one.least), formatFloat(one.most), *one.value)
			}
		}
	}
	_, public, _ := net.SplitHostPort(l.cfg.QueryAPI.Address) // a URL has none
	_, internal, _ := net.SplitHostPort(l.cfg.QueryAPI.InternalAddress)
	l.checkKey(internal == "" || internal != public, "query_api.internal_address",
		"it has the port of query_api.address; use another one")
}

// checkSubjects checks for whom the i-th quota is.
func (l *loader) checkSubjects(at string, i int, quota Quota) {
	if quota.Groups == "" {
		_, err := path.Match(quota.Keys, "")
		l.checkKey(quota.Keys != "" && err == nil, at+".keys",
			"want the name or id of an API key, or a pattern with * ? [ ], got %q", quota.Keys)
		return
	}
	l.checkKey(quota.Keys == "", at, "it has keys and groups: make two entries")
	settings, before := l.cfg.QueryAPI, -1
	counts := func(group OIDCGroup) bool {
		first := slices.IndexFunc(settings.Quotas, func(one Quota) bool { return one.MatchesGroup(group.Group) })
		if quota.MatchesGroup(group.Group) {
			before = first
		}
		return first == i
	}
	switch {
	case slices.ContainsFunc(settings.OIDC.Groups, counts):
	case before < 0:
		l.checkKey(false, at+".groups", "no group of query_api.oidc.groups matches %q", quota.Groups)
	case settings.Quotas[before].Groups != quota.Groups: // else the entry stands twice
		l.checkKey(false, at+".groups", "entry %d matches its groups too, and is the one that counts", before)
	}
}

// quotaKeys are those of the internal address and of quotas.
var quotaKeys = []key{
	{
		path: "query_api.internal_address",
		meaning: "where the program query-api also answers /livez, /readyz and /metrics, for probes; it asks for no key, " +
			"so beyond loopback a network policy must. empty: nowhere",
		example: "0.0.0.0:8082",
		rule:    allowEmpty(requireAddress(true, 1)),
	},
	{
		path: "query_api.quotas",
		meaning: "what each API key, or the people of a group together, may use in a day of UTC, counted over all " +
			"query-api (docs/guides/quotas.md). The first entry whose keys match the name or id of a key counts for it, and " +
			"the first whose groups match one of query_api.oidc.groups for people; a number that is left out is no bound, " +
			"0 allows " +
			"nothing. concurrent bounds requests that run at once in one process",
		example: `[{keys: "team-*", answers: 500, money: 5}]`,
		rule:    rule{values: "mappings of keys or groups, requests, answers, tokens, money, concurrent"},
	},
}
