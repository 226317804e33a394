package pipeline_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// seller is a model that is paid for; it counts what it sold.
type seller struct {
	mu     sync.Mutex
	texts  map[string]int // embedded
	calls  map[string]int // of the chat, by task
	refuse func(texts []string) bool
	code   fault.Code // of a refusal; empty: fault.ModelAuth
}

func (s *seller) Info() model.Info { return model.Info{Provider: "openai", Model: "m", Paid: true} }
func (s *seller) Dimension() int   { return 16 }

func (s *seller) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil && s.refuse(texts) {
		return nil, model.Usage{}, cmp.Or(s.code, fault.ModelAuth).At("embed", "m")
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		s.texts[text]++
		digest := core.Sum(text)
		vectors[i] = make([]float32, 16)
		for j := range vectors[i] {
			vectors[i][j] = float32(digest[j]) + 1
		}
	}
	return vectors, model.Usage{Prompt: int64(len(texts))}, nil
}

type chat struct{ *seller }

func (c chat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	c.mu.Lock()
	c.calls[call.Task]++
	c.mu.Unlock()
	reply, err := builtin.Chat{}.Complete(ctx, call)
	reply.Usage = model.Usage{Prompt: 100, Completion: 7}
	return reply, err
}

// sold returns what was paid for since the last look: calls, texts, and texts that had been paid for before.
func (s *seller) sold(before map[string]int) (extract, shorten, texts, twice int) {
	for text, n := range s.texts {
		texts += n - before[text]
		twice += n - max(1, before[text])
	}
	extract, shorten = s.calls[model.Extract], s.calls[model.Shorten]
	clear(s.calls)
	return extract, shorten, texts, twice
}

// paying has a site's models paid for. Classes are shortened early, so that there is something to shorten.
func paying(s *site) *seller {
	sold := &seller{texts: map[string]int{}, calls: map[string]int{}}
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: chat{sold}, Classes: sold, Chunks: sold}, nil
	}
	s.spec.Chat = core.ChatModel{Provider: "openai", Model: "m"}
	s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "m", MaxInputTokens: 60}
	s.spec.Shortening.Threshold = 200
	return sold
}

// A build from a damaged ledger pays for what was damaged, gives what a build from a whole one gives, and counts it.
func TestADamagedLedgerIsPaidForAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, long(15))
	sold := paying(s)
	first := s.night(t)
	sold.sold(nil)
	before := maps.Clone(sold.texts)
	for info := range musttest.All(t, s.Artifacts.List(t.Context(), "ledger/", "")) {
		if strings.HasPrefix(info.Key, "ledger/texts/") {
			continue // else the vectors would not be looked for
		}
		if strings.Contains(info.Key, "/packs/") {
			require.NoError(t, s.Artifacts.Delete(t.Context(), info.Key))
			continue
		}
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, info.Key))(t)
		letter := bytes.LastIndexFunc(raw, unicode.IsLower) // JSON that can be read as before, or a part of a number
		raw[letter] ^= 1
		must(blob.Write(t.Context(), s.Artifacts, info.Key, raw, blob.Cond{}))(t)
	}
	restart(s)
	out := must(s.try(t, &how{rebuild: true}))(t)
	extract, shorten, texts, _ := sold.sold(before)
	assert.True(t, extract > 0 && shorten > 0 && texts > 0, "paid for %d, %d, %d", extract, shorten, texts)
	assert.Equal(t, first.manifest.Hashes, out.manifest.Hashes)
	report := s.report(t)
	assert.True(t, report.LedgerDamage > 0 && slices.ContainsFunc(report.Problems, func(problem core.Problem) bool {
		return problem.Code == string(fault.LedgerDamage)
	}), "%d damaged, %v", report.LedgerDamage, report.Problems)
}

// restart opens the ledger again, as another process sees it.
func restart(s *site) { s.Ledger = ledger.New(s.Artifacts, coordmemory.New()) }

// long has chunks of several windows too.
func long(n int) map[string]string {
	files := sample(n)
	for i := range 3 {
		var words []string
		for j := range 150 {
			words = append(words, fmt.Sprintf("word%d-%d", i, j))
		}
		files[fmt.Sprintf("long-%d.md", i)] = fmt.Sprintf("# Long %d\n\nLake Verin %s.\n", i, strings.Join(words, " "))
	}
	return files
}

func move(t *testing.T, s *site, folder string) {
	entries := must(os.ReadDir(s.corpus))(t)
	require.NoError(t, os.Mkdir(filepath.Join(s.corpus, folder), 0o755))
	for n, entry := range entries { // the order changes too
		name := fmt.Sprintf("%03d-%s", (n*37+11)%len(entries), entry.Name())
		require.NoError(t, os.Rename(filepath.Join(s.corpus, entry.Name()), filepath.Join(s.corpus, folder, name)))
	}
}

// Promises: 59, 60.
func TestNoIndexPaysForATextThatAnotherPaidFor(t *testing.T) {
	t.Parallel()
	s := newSite(t, long(15))
	sold := paying(s)
	s.night(t)
	first := maps.Clone(sold.texts)
	sold.sold(nil)
	for _, c := range []struct {
		situation string
		change    func()
		paid      bool
	}{
		{"a second index of the corpus", func() { s.spec.Index = "second" }, false},
		{"a third with five documents more", func() {
			s.spec.Index = "third"
			for i := range 5 {
				s.write(t, map[string]string{fmt.Sprintf("new-%d.md", i): fmt.Sprintf("# New %d\n\nTolmin sells tin %d.\n", i, i)})
			}
		}, true},
		{"of documents under other names", func() { s.spec.Index = "fourth"; move(t, s, "elsewhere") }, false},
		{"its own, whose folder moved", func() { move(t, s, "archive") }, false},
	} {
		restart(s)
		before := maps.Clone(sold.texts)
		c.change()
		require.Equal(t, core.StatusCompleted, s.night(t).published.Status, "%s", c.situation)
		extract, shorten, texts, twice := sold.sold(before)
		assert.True(t, twice == 0 && (texts > 0) == c.paid && texts <= 40 && (c.paid || extract+shorten == 0),
			"%s: %d calls, %d texts, %d a second time, of %d", c.situation, extract+shorten, texts, twice, len(first))
	}
}

// A build that ended early leaves what it paid for to the next one, also where a document changed in between.
// Promises: 59.
func TestAHeldOrCancelledBuildIsNotPaidForAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, long(40))
	sold := paying(s)
	asked := 0
	sold.refuse = func([]string) bool { asked++; return asked > 2 }
	job, holder := s.job(t)
	refused(s.stages(t.Context(), job, holder))(t, fault.ModelAuth, "", "")
	sold.refuse = nil
	before := maps.Clone(sold.texts)
	require.True(t, len(before) != 0, "nothing was paid for before it ended")
	restart(s)
	s.buildFiles(t, map[string]string{"place-007.md": "# Another\n\nQuite another text about Tolmin and tin.\n"})
	if _, _, texts, twice := sold.sold(before); twice != 0 || texts == 0 {
		t.Errorf("%d texts, %d of them a second time; %d had been paid for", texts, twice, len(before))
	}
}

func TestAccountsAreWhatAnEmptyStoreWouldPay(t *testing.T) {
	t.Parallel()
	s := newSite(t, long(15))
	sold := paying(s)
	s.night(t)
	var want core.IndexTokens
	calls := int64(sold.calls[model.Extract] + sold.calls[model.Shorten])
	want.Prompt, want.Completion = 100*calls, 7*calls
	for text := range sold.texts {
		want.Classes += int64(tokens.Count(text))
	}
	for range 2 {
		in := s.estimating()
		in.Accounts = true
		got := *estimated(t, in).IndexTokens
		assert.True(t, got.Classes > 0 && got.Chunks > 0, "%+v", got)
		got.Classes, got.Chunks = got.Classes+got.Chunks, 0
		assert.Equal(t, want, got)
		s.buildFiles(t, map[string]string{"place-007.md": "# Another\n\nQuite another text about Tolmin and tin.\n"})
		s.write(t, map[string]string{"place-007.md": long(15)["place-007.md"]})
		s.night(t) // pays for nothing: what it makes was paid for before
	}
}

// What generations list must be what was embedded: a text that is left out goes after two weeks.
func TestEveryEmbeddedTextOfAGenerationIsListed(t *testing.T) {
	t.Parallel()
	for _, parity := range []bool{false, true} {
		s := newSite(t, long(15))
		sold := paying(s)
		s.spec.Parity = parity
		night := s.night(t)
		listed := map[core.Digest]bool{}
		index := artifact.Index{Store: s.Artifacts, Name: "docs"}
		for key := range musttest.All(t, collect.ListKeys(t.Context(), []artifact.Index{index}, ledger.Embed)) {
			listed[key] = true
		}
		missing := 0
		for text := range sold.texts {
			if !listed[embed.Digest(text, night.manifest.Class.Digest())] &&
				!listed[embed.Digest(text, night.manifest.Chunk.Digest())] {
				missing++
			}
		}
		assert.True(t, missing <= 0 && len(listed) != 0,
			"parity %v: %d of %d texts are not listed", parity, missing, len(sold.texts))
	}
}

// wide is an embedder whose dimension is in no configuration.
type wide struct{ *seller }

func (w wide) Dimension() int { return 0 }

func TestTheDimensionOfAModelIsPaidForOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, long(10))
	sold := paying(s)
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		return model.Set{Chat: chat{sold}, Classes: wide{sold}, Chunks: wide{sold}}, nil
	}
	job, _ := s.job(t) // a run that ends before anything is published
	require.NoError(t, s.unit(t.Context(), job, "plan", func(ctx context.Context, run *upkeep.Run) error {
		return musttest.Err(run.Plan(ctx))
	}))
	restart(s)
	s.night(t)
	s.spec.Index = "second"
	restart(s)
	s.night(t)
	assert.Equal(t, 1, sold.texts["dimension"], "it was asked for")
	s.Ledger = ledger.New(blobmemory.New(), coordmemory.New()) // an index that is served says it too
	s.spec.Index = "third"
	s.night(t)
	assert.Equal(t, 1, sold.texts["dimension"], "it was asked for")
	s.spec.Index, s.spec.Embedding.BaseURL = "fourth", "http://another/v1" // whose model of this name may be another
	s.night(t)
	assert.Equal(t, 2, sold.texts["dimension"], "another server was not asked")
}

// since returns what was sold since a moment, by kind: extract, shorten, and embed.
func (s *shop) since(before map[string]int) map[string]int {
	out := map[string]int{}
	for key, n := range s.sold {
		kind, _, _ := strings.Cut(key, " ")
		if strings.HasPrefix(kind, "embedder") {
			kind = "embed"
		}
		if n -= before[key]; n > 0 {
			out[kind] += n
		}
	}
	return out
}

// What changes in a night decides what is paid for: no kind of call is made that the change does not need.
// Promises: 16, 76.
func TestAChangePaysForTheKindsOfCallsThatItNeeds(t *testing.T) {
	for what, do := range map[string]struct {
		change func(t *testing.T, s *site)
		pays   string // kinds of calls
		why    string // part of the reasons that plan gives; empty: documents, or nothing
	}{
		"nothing": {func(*testing.T, *site) {}, "", ""},
		"another embedding model": {
			func(_ *testing.T, s *site) { s.spec.Embedding.Model = "embedder-1" }, "embed", "embedding",
		},
		"another threshold": {
			func(_ *testing.T, s *site) { s.spec.Shortening.Threshold = 120 }, "embed shorten", "shortening",
		},
		"another chat model":       {func(_ *testing.T, s *site) { s.spec.Chat.Model = "chat-1" }, "extract shorten", "chat"},
		"what retrieval is set to": {func(_ *testing.T, s *site) { s.spec.Retrieval.TopChunks = 9 }, "", ""},
		"another language":         {func(_ *testing.T, s *site) { s.spec.Retrieval.Language = "de" }, "", "language"},
		"how many are kept":        {func(_ *testing.T, s *site) { s.spec.Keep = 2 }, "", ""},
		"documents moved": {func(t *testing.T, s *site) {
			from, to := filepath.Join(s.corpus, "place-003.md"), filepath.Join(s.corpus, "other.md")
			require.NoError(t, os.Rename(from, to))
		}, "", ""},
		"a document removed": {func(t *testing.T, s *site) {
			require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
		}, "embed shorten", ""},
		"a document added": {func(t *testing.T, s *site) {
			s.write(t, map[string]string{"more.md": "# More\n\nGreta Lind sold amber to Rhine Gate.\n"})
		}, "embed extract", ""},
	} {
		t.Run(what, func(t *testing.T) {
			s, sold := newSite(t, sample(20)), &shop{sold: map[string]int{}}
			s.Models = sold.models
			s.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
			s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
			s.spec.Shortening.Threshold, s.spec.Gate.MaxRemoved = 700, 1
			s.night(t)
			before := maps.Clone(sold.sold)
			do.change(t, s)
			restart(s)
			out := s.night(t)
			reasons := s.report(t).Reasons
			paid := sold.since(before)
			for _, kind := range slices.Sorted(maps.Keys(paid)) {
				assert.True(t, strings.Contains(do.pays, kind), "%d calls of %s were paid for", paid[kind], kind)
			}
			for _, kind := range strings.Fields(do.pays) {
				assert.True(t, paid[kind] != 0, "no %s was paid for: the case shows nothing", kind)
			}
			assert.Contains(t, fmt.Sprint(reasons), do.why, "the reasons are %s", reasons)
			t.Logf("%v, reasons %v, unchanged %v", paid, reasons, out.planned.Unchanged)
		})
	}
}

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
