package recordsmemory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
)

func TestConformance(t *testing.T) {
	recordstest.Run(t, func(*testing.T) records.Store { return recordsmemory.New() })
}

func TestAStoreThatLostItsMemoryHasAnotherIdentity(t *testing.T) {
	first, err := recordsmemory.New().Identity(t.Context())
	require.NoError(t, err)
	if second, _ := recordsmemory.New().Identity(t.Context()); first == second {
		t.Errorf("both are %q", first)
	}
}
