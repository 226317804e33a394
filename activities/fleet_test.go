package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/fleet"
	"github.com/unweaver/unweaver/workflows"
)

// measured runs MeasureFleet.
func (p *plant) measured(t *testing.T) workflows.Capacity {
	t.Helper()
	var capacity workflows.Capacity
	value, err := p.env.ExecuteActivity(workflows.MeasureFleet, p.build)
	if err == nil {
		err = value.Get(&capacity)
	}
	require.NoError(t, err)
	return capacity
}

func TestAMeasureCountsWhoCanDoTheRunsWork(t *testing.T) {
	p := newPlant(t)
	p.Self = fleet.Worker{Queue: "q", Version: "1"}
	assert.Equal(t, workflows.Capacity{}, p.measured(t), "a fleet without a member")
	for name, value := range map[string]string{
		"a":                   `{"queue":"q","version":"1","slots":64,"cpu":8}`,
		"b":                   `{"queue":"q","version":"1","slots":1,"cpu":1}`,
		"of computing alone":  `{"queue":"q","version":"1","slots":0,"cpu":4,"apart":true}`,
		"of both queues":      `{"queue":"q","version":"1","slots":10,"cpu":2,"apart":true}`,
		"of an older version": `{"queue":"q","slots":64,"cpu":8}`,
		"of another queue":    `{"queue":"r","version":"1","slots":64,"cpu":8}`,
	} {
		_, _, err := p.Ports.Coordination.Beat(t.Context(), name, []byte(value), nil, time.Hour)
		require.NoError(t, err)
	}
	for want, spec := range map[workflows.Capacity]core.Spec{
		{Workers: 3, Slots: 75, CPU: 11}: {Index: "docs"},
		{Workers: 3, Slots: 75, CPU: 11, Chat: 500, Embed: 500}: {
			Index: "docs", Chat: core.ChatModel{Provider: "openai"}, Embedding: core.EmbedModel{Provider: "openai"},
			Limits: core.Limits{Concurrency: 500},
		},
		{Workers: 3, Slots: 75, CPU: 11, Chat: 64}: {Index: "docs", Chat: core.ChatModel{Provider: "openai"}},
	} {
		digest := must(artifact.Index{Store: p.store, Name: "docs"}.PutSpec(t.Context(), spec))(t)
		p.build.Spec = digest.String()
		if want.Computing = 6; p.measured(t) != want {
			t.Errorf("%+v, want %+v", p.measured(t), want)
		}
	}
	p.build.Spec = "" // of a restore, or an audit
	got, want := p.measured(t), (workflows.Capacity{Workers: 3, Slots: 75, CPU: 11, Computing: 6})
	assert.True(t, got == want, "without a configuration: %+v, want %+v", got, want)
}
