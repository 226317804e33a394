package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// configured gives a site the models of a configuration.
func configured(t *testing.T, s *site, set ...string) {
	t.Helper()
	cfg := musttest.Get(config.Load(config.Source{Set: set}))(t)
	spec := musttest.Get(cfg.Spec(s.spec.Index, s.corpus))(t)
	s.spec.Chat, s.spec.Roles, s.spec.Limits = spec.Chat, spec.Roles, spec.Limits
	models := app.NewModels(s.Coordination, cfg)
	s.Models = func(spec core.Spec, meter model.Meter) (model.Set, error) { return models.NewBuildSet(spec, meter) }
}

// A change of the model of a role pays for that role and what is made of it; no other role, and no answer, rebuilds.
func TestAChangeOfARoleIsPaidForThatRoleAlone(t *testing.T) {
	t.Parallel()
	a, b := modeltest.New(modeltest.Options{}), modeltest.New(modeltest.Options{})
	for _, server := range []*modeltest.Server{a, b} {
		require.NoError(t, server.Listen("127.0.0.1:0"))
		t.Cleanup(server.Close)
	}
	s := newSite(t, sample(12))
	s.spec.Shortening.Threshold = 200
	general := []string{
		"models.chat.provider=openai", "models.chat.model=m", "models.chat.base_url=" + a.URL, "models.chat.api_key_env=",
		"models.chat.price.prompt=1000000",
	}
	role := func(role string) []string {
		return append(general, "models."+role+".model=n", "models."+role+".base_url="+b.URL,
			"models."+role+".api_key_env=", "models."+role+".price.completion=1000000")
	}
	for _, step := range []struct {
		name               string
		set                []string
		extracts, shortens bool // at the server of the step
		atB                bool
		models             map[string]string
	}{
		{"a first build", general, true, true, false, nil},
		{"another model answers", role("answer"), false, false, true, map[string]string{"answer": "openai:n"}},
		{"it has another key", append(role("answer"), "models.answer.api_key_env=PATH"), false, false, true,
			map[string]string{"answer": "openai:n"}},
		{"another model finds triples", role("triples"), false, false, true, map[string]string{"triples": "openai:n"}},
		{"as at first", general, false, false, false, nil},
		{"another model shortens", role("shortening"), false, true, true, map[string]string{"shortening": "openai:n"}},
		{"another model extracts", role("extraction"), true, false, true, map[string]string{
			"shortening": "openai:m", "triples": "openai:m", "answer": "openai:m",
		}},
	} {
		configured(t, s, step.set...)
		due := estimated(t, s.estimating())
		expected := due.Estimate
		if strings.HasPrefix(step.name, "it has") { // queries read the settings of the published generation
			assert.True(t, !due.Unchanged && slices.Contains(due.Reasons, "settings of the model of answer"), "%+v", due.Reasons)
		}
		beforeA, beforeB := a.Stats(), b.Stats()
		out := s.night(t)
		paidA, paidB := since(a, beforeA), since(b, beforeB)
		paid, other := paidA, paidB
		if step.atB {
			paid, other = paidB, paidA
		}
		assert.Equal(t, step.extracts, paid["extract"].Calls > 0, "%s: %v", step.name, paid)
		assert.Equal(t, step.shortens, paid["shorten"].Calls > 0, "%s: %v", step.name, paid)
		assert.Zero(t, other["extract"].Calls, "%s: %v", step.name, other)
		assert.InDelta(t, float64(paidA["extract"].Calls+paidB["extract"].Calls), expected.Extract.High, 0, step.name)
		if !step.extracts && !step.shortens {
			assert.Zero(t, expected.Shorten.High+expected.Cost.High, step.name)
		}
		report := s.report(t)
		price := float64(paidA["extract"].Prompt + paidA["shorten"].Prompt +
			paidB["extract"].Completion + paidB["shorten"].Completion)
		assert.InDelta(t, price, report.Cost, 1e-6, "%s: the price of each role", step.name)
		if out.manifest != nil {
			assert.Equal(t, step.models, out.manifest.Models.Roles, step.name)
		}
	}
}

// since gives what was paid for at a server after a moment, by task.
func since(server *modeltest.Server, before modeltest.Stats) map[string]modeltest.Cost {
	out := map[string]modeltest.Cost{}
	for task, now := range server.Stats().Tasks {
		was := before.Tasks[task]
		out[strings.ToLower(task)] = modeltest.Cost{
			Calls: now.Calls - was.Calls, Prompt: now.Prompt - was.Prompt, Completion: now.Completion - was.Completion,
		}
	}
	return out
}
