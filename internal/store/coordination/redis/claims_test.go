package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func TestManyClaimsAreTakenInOneJourney(t *testing.T) {
	store := redis.New(redistest.Empty(t, redistest.Server(t)))
	claim := func(owner string, want []bool, keys ...string) {
		t.Helper()
		got, err := store.ClaimAll(t.Context(), keys, owner, time.Minute)
		assert.True(t, err == nil && slices.Equal(got, want), "%s: %v, %v, want %v", owner, got, err, want)
	}
	claim("one", []bool{true, true}, "a", "b")
	claim("two", []bool{false, true}, "b", "c")
	require.NoError(t, store.ReleaseAll(t.Context(), []string{"a", "b", "c"}, "one"))
	claim("three", []bool{true, true, false}, "a", "b", "c")
}
