package app_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// The model of a role has its own server, key and limits; the others go on with the general ones.
func TestARoleHasItsOwnServerAndLimits(t *testing.T) {
	general := spec(t, modeltest.Options{})
	server := modeltest.New(modeltest.Options{Latency: 5 * time.Millisecond, Key: "of-answers"})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	t.Setenv("WIRING_TEST_ANSWERS", "of-answers")
	general.Roles = map[string]core.ChatModel{core.RoleAnswer: {
		Provider: "openai", BaseURL: server.URL, APIKeyEnv: "WIRING_TEST_ANSWERS", Model: "n",
		Limits: core.Limits{Concurrency: 1},
	}}
	models := factory(general)
	if err := models.Check(general); !fault.Is(err, fault.EndpointRefused) {
		t.Errorf("a server that the process does not name: %v", err)
	}
	models.AllowEndpoints(config.Endpoint{BaseURL: server.URL, APIKeyEnv: "WIRING_TEST_ANSWERS"})
	require.NoError(t, models.Check(general))
	set := musttest.Get(models.NewBuildSet(general, nil))(t)
	assert.Equal(t, "m", set.Extractor().Info().Model)
	answers := musttest.Get(models.Chat(general, core.RoleAnswer))(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := answers.Complete(t.Context(), model.Call{Task: model.Answer, User: "hello there"})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	stats := server.Stats()
	assert.True(t, stats.Chat == 8 && stats.MaxFlight == 1, "%d calls, %d at once", stats.Chat, stats.MaxFlight)
	t.Setenv("WIRING_TEST_ANSWERS", "")
	_, err := models.Chat(general, core.RoleAnswer)
	assert.True(t, fault.As(err) != nil && fault.As(err).Object == "models.answer", "a key that is empty: %v", err)
}
