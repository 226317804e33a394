package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/sampling"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// inLanguages gives a site built-in models by the language of its configuration, and vectors that do not depend on what
// else is in the corpus.
func inLanguages(s *site) {
	steady(s)
	s.Models = func(spec core.Spec, _ model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: builtin.Chat{Language: spec.Retrieval.Language}, Classes: embedder, Chunks: embedder}, nil
	}
}

// worded gives the documents that hold words of a question, by the path of queries.
func worded(t *testing.T, s *site, question string) (out []string) {
	generation := openGeneration(t, s)
	defer generation.Close()
	searcher := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records, Methods: methods.Registry()}
	result := must(searcher.Run(t.Context(), generation, retrieve.Query{Text: question, Method: "bm25", TopChunks: 8}))(t)
	for _, chunk := range result.Chunks {
		if !chunk.Filled {
			out = append(out, generation.Live.Key(int(chunk.Live.Document)))
		}
	}
	return out
}

// A change of the language is for the next generation; the one that is served is asked by the language that it has.
// Promises: 76.
func TestAnotherLanguageCountsFromTheNextGenerationOn(t *testing.T) {
	s := newSite(t, map[string]string{
		"haus.md":    "# Eins\n\nAm Ufer stand ein altes Haus mit Garten.\n",
		"bruecke.md": "# Zwei\n\nEine Entscheidung fiel am Abend in Ulm.\n",
		"drei.md":    "# Drei\n\nEs regnete den ganzen Tag.\n",
	})
	inLanguages(s)
	first := s.night(t).manifest
	require.Empty(t, worded(t, s, "Häuser"), "English finds")
	assert.True(t, first.Made.Analyser == "en/3" && first.Made.Rules == "rules-6", "English was made by %+v", first.Made)
	s.spec.Retrieval.Language = "de"
	require.Empty(t, worded(t, s, "Häuser"), "before the build")
	restart(s)
	second := s.night(t).manifest
	reasons := strings.Join(s.report(t).Reasons, "; ")
	for _, want := range []string{"config: language", "analyser en/3 → de/2", "rules of names rules-6 → rules-6 de/2"} {
		assert.True(t, strings.Contains(reasons, want), "the reasons are %s", reasons)
	}
	assert.Equal(t, []string{"haus.md"}, worded(t, s, "Häuser"), "German finds")
	assert.Equal(t, []string{"bruecke.md"}, worded(t, s, "Entscheidungen"), "German finds")
	s.difference(t, first.Generation, second.Generation)
	restart(s)
	assert.True(t, s.night(t).planned.Unchanged, "the night after is not unchanged: %v", s.report(t).Reasons)
	must(s.act(t, "rollback", first.Generation))(t)
	assert.Empty(t, worded(t, s, "Häuser"), "after a rollback English finds")
	assert.Equal(t, []string{"haus.md"}, worded(t, s, "Haus"), "after a rollback English finds")
}

// A build in auto comes to what one in the language of its corpus comes to, and nights keep it whatever is added.
// Promises: 76.
func TestTheLanguageOfTheCorpusIsFoundOnceAndKept(t *testing.T) {
	documents := map[string]string{}
	for i := range 4 {
		documents[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("Am Ufer stand das Haus Nummer %d, und in dem Haus war es nicht warm.\n", i)
	}
	s, named := newSite(t, documents), newSite(t, documents)
	inLanguages(s)
	inLanguages(named)
	s.spec.Retrieval.Language, named.spec.Retrieval.Language = core.LanguageAuto, "de"
	first, want := s.night(t).manifest, named.night(t).manifest
	spec := must(s.index().Spec(t.Context(), first.Spec))(t)
	assert.Equal(t, "de", spec.Retrieval.Language)
	assert.Equal(t, want.Made, first.Made)
	assert.Equal(t, want.Hashes, first.Hashes)
	assert.Equal(t, 4, len(worded(t, s, "Häuser")))
	restart(s)
	assert.True(t, s.night(t).planned.Unchanged)
	// What was found is written again where the configuration that names it is damaged.
	must(blob.Write(t.Context(), s.Artifacts, s.index().SpecKey(first.Spec), []byte("{}"), blob.Cond{}))(t)
	restart(s)
	s.night(t)
	assert.Equal(t, spec, must(s.index().Spec(t.Context(), first.Spec))(t))
	for i := range 9 {
		s.write(t, map[string]string{fmt.Sprintf("en%d.md", i): "It is the one that was not in the house, and it is the last of them.\n"})
	}
	restart(s)
	assert.Equal(t, first.Made, s.night(t).manifest.Made)
	assert.Empty(t, s.report(t).Reasons)
}

// Which chunks a model gets depends on nothing but the chunks and the share: nights on which documents come and go, and
// nights after the share was changed, come to what a build from nothing comes to.
// Promises: 78.
func TestNightsOfAShareComeToWhatABuildFromNothingComesTo(t *testing.T) {
	var sent atomic.Int64
	spared := int64(0)
	h := newHistory(t, rand.New(rand.NewPCG(5, 1)), 15)
	sharing := func(s *site) {
		chat := &stagetest.Chat{Free: true, Answer: func(call model.Call) (model.Reply, error) {
			if call.Task != model.Extract {
				return builtin.Chat{}.Complete(t.Context(), call)
			}
			if !sampling.ShouldSend(call.Input, s.spec.ExtractionShare()) {
				return model.Reply{}, fmt.Errorf("a chunk was sent that is not of the share: %.40q", call.Input)
			}
			sent.Add(1)
			raw, err := json.Marshal(map[string]any{"entities": []map[string]string{
				{"name": "Ledger of " + call.Input[:12], "description": "as the model says"},
				{"name": pick(rand.New(rand.NewPCG(uint64(len(call.Input)), 3)), places), "description": "a place"},
			}})
			return model.Reply{Text: string(raw)}, err
		}}
		steadyBy(s, chat)
	}
	sharing(h.site)
	h.spec.Extraction = &core.Extraction{Share: 0.3}
	h.night(t)
	for night := range longtest.Count(6, 20) {
		if night%5 == 3 { // the dial is turned, back and forth
			h.spec.Extraction = &core.Extraction{Share: 1 - h.spec.ExtractionShare()}
		}
		h.change(t)
		out := h.night(t)
		if out.planned.Unchanged || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
			continue
		}
		fresh := h.freshSite(t)
		sharing(fresh)
		before := sent.Load()
		want := fresh.night(t)
		spared += want.manifest.Counts.Chunks - (sent.Load() - before)
		sameGeneration(t, night, out.manifest, want.manifest)
	}
	assert.True(t, sent.Load() != 0 && spared != 0,
		"%d chunks were sent and %d were not: nothing was shown", sent.Load(), spared)
}

// Attachments are documents of their own: what changes, goes or cannot be read for a while is that attachment, and each
// night comes to what a build from nothing comes to.
func TestNightsOfAttachmentsComeToWhatABuildFromNothingComesTo(t *testing.T) {
	file := func(name, words string) documenttest.Part {
		return documenttest.Part{Name: name, Content: "# About " + name + "\n\nThe barge " + words + " carried rye to Tolmin.\n"}
	}
	a, b, c := file("a.md", "Alma"), file("b.md", "Berit"), file("b.md", "Clara")
	s := newSite(t, sample(30))
	s.spec.Documents, s.spec.Gate.MaxRemoved = &core.Documents{Attachments: true}, 0.5
	s.spec.Failures = core.Failures{Share: 1}
	s.write(t, map[string]string{
		"m.eml!.md": "# Between\n\nA key between two others.",
		"m.eml":     documenttest.MailWith("A barge", a), "d.pdf": documenttest.PDFWith("Plan", a, b),
	})
	three, two := documenttest.MailWith("Three barges", a, b, c), documenttest.MailWith("Three barges", a, file("b.md", "Dora"))
	const first, second = "m%231.eml m%231.eml#a.md m%231.eml#b.md m%231.eml#b.md#2", "m%231.eml m%231.eml#a.md m%231.eml#b.md"
	for _, night := range []struct {
		name, object, content string // no content: the object goes
		held, stale           string
		diff                  core.Diff
	}{
		{"the first", "m#1.eml", three, first + " m.eml m.eml#a.md", "", core.Diff{Added: 40}},
		{"nothing", "", "", first + " m.eml m.eml#a.md", "", core.Diff{Same: 40}},
		{"one changes, one goes", "m#1.eml", two, second + " m.eml m.eml#a.md", "",
			core.Diff{Changed: 2, Removed: 1, Same: 37}},
		{"it cannot be read", "m#1.eml", "\x00", second + " m.eml m.eml#a.md", second, core.Diff{Same: 36, Unusable: 3}},
		{"nothing, unreadable still", "", "", second + " m.eml m.eml#a.md", second, core.Diff{Same: 36, Unusable: 3}},
		{"it can again", "m#1.eml", two, second + " m.eml m.eml#a.md", "", core.Diff{Changed: 3, Same: 36}},
		{"none is attached", "m#1.eml", documenttest.MailWith("Three barges"), "m%231.eml m.eml m.eml#a.md", "",
			core.Diff{Changed: 1, Removed: 2, Same: 36}},
		{"a mail goes", "m.eml", "", "m%231.eml", "", core.Diff{Removed: 2, Same: 35}},
	} {
		if night.object != "" {
			s.remove(t, night.object)
		}
		if night.content != "" {
			s.write(t, map[string]string{night.object: night.content})
		}
		out := s.night(t)
		var held, stale []string
		for key, document := range s.served(t, out.manifest) {
			if strings.HasPrefix(key, "m") && key != "m.eml!.md" {
				held = append(held, key)
			}
			if document.Stale {
				stale = append(stale, key)
			}
			if of := document.Meta["attached_to"]; of != core.ObjectKey(document.Object) && strings.Contains(key, "#") {
				t.Errorf("%s: %s is attached to %q", night.name, key, of)
			}
		}
		slices.Sort(held)
		slices.Sort(stale)
		if got := s.report(t).Diff; strings.Join(held, " ") != night.held || strings.Join(stale, " ") != night.stale ||
			got != night.diff || out.planned.Unchanged != (night.object == "") {
			t.Errorf("%s: %q, stale %q, %+v, unchanged %v", night.name, held, stale, got, out.planned.Unchanged)
		}
		if night.stale != "" {
			continue
		}
		fresh := newSite(t, nil)
		fresh.corpus, fresh.spec = s.corpus, s.spec
		want := fresh.night(t).manifest
		assert.True(t, out.manifest.Hashes.Content == want.Hashes.Content && out.manifest.Counts == want.Counts,
			"%s: %+v, from nothing %+v", night.name, out.manifest.Counts, want.Counts)
	}
}

// written are texts with what a prompt says of their language.
var written = []struct{ name, text, wants string }{
	{"en", "The harbour of Port Alma was built by Carla Ruiz, and the ships that leave it carry salt to the lake.", ""},
	{"de", "Der Hafen von Port Alma wurde von Carla Ruiz gebaut, und die Schiffe, die ihn verlassen, bringen Salz.", "German"},
	{"es", "El puerto de Port Alma fue construido por Carla Ruiz, y los barcos que salen de él llevan sal al lago.", "Spanish"},
	{"fr", "Le port de Port Alma a été construit par Carla Ruiz, et les navires qui en partent portent du sel au lac.", "French"},
	{"pt", "O porto de Port Alma foi construído por Carla Ruiz, e os navios que saem dele não levam sal para o lago.", "Portuguese"},
	{"ja", "ポート・アルマの港はカルラ・ルイスによって建てられ、そこを出る船は湖へ塩を運んでいます。", "Japanese"},
	{"th", "ท่าเรือพอร์ตอัลมาสร้างโดยคาร์ลา รุยซ์ และเรือที่ออกจากท่าบรรทุกเกลือไปยังทะเลสาบ", "Thai"},
	{"zh", "阿尔玛港由卡拉·鲁伊斯建造，从那里出发的船只把盐运到湖边的城镇。", "Chinese"},
	{"ru", "Гавань Порт-Альма была построена Карлой Руис, и корабли, которые выходят из неё, везут соль.", "the language of the text"},
}

// Prompts name the language of each text, or the configured one, and an answer's that of its question. English is
// described by the prompt that names none, so what was paid for it stays.
func TestPromptsNameTheLanguageToWriteIn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	systems := map[string]string{} // by task and text
	server := modeltest.Start(t, modeltest.Options{Script: func(seen modeltest.Seen) modeltest.Injection {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range written {
			if strings.Contains(seen.Text, one.text) {
				systems[seen.Task+" "+one.name] = seen.System
			}
		}
		return modeltest.Injection{}
	}})
	files := map[string]string{}
	for _, one := range written {
		files[one.name+".txt"] = one.text + "\n"
	}
	s := newSite(t, files)
	configured(t, s, "models.chat.provider=openai", "models.chat.model=m", "models.chat.base_url="+server.URL,
		"models.chat.api_key_env=")
	s.night(t)
	for _, one := range written {
		system, asked := systems["extract "+one.name]
		require.True(t, asked, one.name)
		assert.Equal(t, one.wants != "", strings.Contains(system, "Write in "), "%s: %s", one.name, system)
		assert.Contains(t, system, one.wants, one.name)
	}
	clear(systems)
	s.spec.Extraction = &core.Extraction{Share: 1, Language: "ko"}
	assert.InDelta(t, float64(len(written)), estimated(t, s.estimating()).Estimate.Extract.High, 0)
	s.spec.Extraction.Language = "de"
	assert.InDelta(t, float64(len(written)-1), estimated(t, s.estimating()).Estimate.Extract.High, 0)
	s.night(t)
	assert.Len(t, systems, len(written)-1, "what is German already is not paid for again")
	for asked, system := range systems {
		assert.Contains(t, system, "Write in German.", asked)
	}
	chat := openai.New(openai.Config{BaseURL: server.URL, Model: "m"})
	for _, one := range written {
		for style, wants := range map[string]bool{core.StyleShort: true, core.StyleFull: false, "": true} {
			_, err := prompt.AnswerQuestion(t.Context(), chat, prompt.FormOf(false, style), one.text+"?", "context",
				[]prompt.Passage{{ID: "a"}}, []bool{true}, func() string { return "" })
			require.NoError(t, err)
			system := systems["answer "+one.name]
			assert.Equal(t, wants, strings.Contains(system, "Single Sentence"), system)
			assert.Contains(t, system, "Answer in the language of the question", one.name)
			if one.name != "ru" {
				assert.Contains(t, system, one.wants, one.name)
			}
		}
	}
}
