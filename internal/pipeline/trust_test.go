package pipeline_test

import (
	"maps"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
)

// vendor is a seller whose answers are of a domain.
type vendor struct {
	*seller
	domain string
}

func (v vendor) Info() model.Info {
	info := v.seller.Info()
	info.Domain = v.domain
	return info
}

type vendorChat struct {
	chat
	domain string
}

func (v vendorChat) Info() model.Info { return vendor{v.seller, v.domain}.Info() }

// asWired gives a site's models the domains of its configuration.
func asWired(s *site, sold *seller) {
	s.Models = func(spec core.Spec, _ model.Meter) (model.Set, error) {
		embedder := vendor{sold, spec.Embedding.Domain()}
		return model.Set{Chat: vendorChat{chat{sold}, spec.Chat.Domain()}, Classes: embedder, Chunks: embedder}, nil
	}
}

func at(s *site, url, domain string) {
	s.spec.Chat.BaseURL, s.spec.Chat.TrustDomain = url, domain
	s.spec.Embedding.BaseURL, s.spec.Embedding.TrustDomain = url, domain
}

// soldAll returns what was sold since before, all tasks together.
func (s *seller) soldAll(before map[string]int) int {
	extract, shorten, texts, _ := s.sold(before)
	return extract + shorten + texts
}

// anotherIndex has the site build another index from the same corpus and stores.
func anotherIndex(t *testing.T, s *site, name string) {
	t.Helper()
	restart(s)
	s.spec.Index = name
}

// Promises: 32.
func TestATenantAtAnotherServerGetsNothingOfTheFirst(t *testing.T) {
	s := newSite(t, sample(8))
	sold := paying(s)
	asWired(s, sold)
	at(s, "http://one.example/v1", "")
	s.night(t)
	all := sold.soldAll(nil)
	for _, c := range []struct {
		index, url, domain string
		pays               bool
	}{
		{"second", "http://two.example/v1", "", true},
		{"third", "http://ONE.example:80/v1/", "", false},
		{"fourth", "http://four.example/v1", "http://one.example/v1", false},
		{"fifth", "http://five.example/v1", "gateway", true},
		{"sixth", "http://six.example/v1", "gateway", false},
		{"seventh", "http://seven.example/v1", core.NoTrustDomain, true},
	} {
		anotherIndex(t, s, c.index)
		at(s, c.url, c.domain)
		before := maps.Clone(sold.texts)
		s.night(t)
		if paid := sold.soldAll(before); paid != 0 && !c.pays || c.pays && paid != all {
			t.Errorf("%s at %s in domain %q: %d sold, the first index %d", c.index, c.url, c.domain, paid, all)
		}
	}
}
