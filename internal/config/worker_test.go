package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSlotsFollowTheModelsAndTheMachineUnlessTheyAreGiven(t *testing.T) {
	for _, c := range []struct {
		set   string
		cores int
		want  int
	}{
		{"", 2, 64},
		{"models.limits.concurrency=512", 2, 64},   // two cores feed no more
		{"models.limits.concurrency=512", 16, 104}, // one and a half times 512, in requests of 8 an activity
		{"models.limits.concurrency=100000", 16, 512},
		{"indexes.docs.models.limits.concurrency=512", 16, 104},
		{"worker.slots=1 models.limits.concurrency=512", 16, 1},
		{"worker.slots=1000", 2, 1000},
	} {
		cfg := must(load(t, "", nil, strings.Fields(c.set)))(t)
		assert.Equal(t, c.want, cfg.CountSlots(c.cores), "%q on %d cores", c.set, c.cores)
	}
}

func TestTheCacheOfWorkflowsFollowsTheMachineUnlessItIsGiven(t *testing.T) {
	for _, c := range []struct {
		set         []string
		cores, want int
	}{
		{nil, 2, 1024}, {nil, 64, 10_000}, {[]string{"worker.workflow_cache=7"}, 64, 7},
	} {
		cfg := must(load(t, "", nil, c.set))(t)
		assert.Equal(t, c.want, cfg.WorkflowCache(c.cores), "%v on %d cores", c.set, c.cores)
	}
}
