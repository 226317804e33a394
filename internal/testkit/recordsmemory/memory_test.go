package recordsmemory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
)

func TestConformance(t *testing.T) {
	recordstest.Run(t, func(*testing.T) records.Store { return recordsmemory.New() })
}

func TestAStoreThatLostItsMemoryHasAnotherIdentity(t *testing.T) {
	first := musttest.Get(recordsmemory.New().Identity(t.Context()))(t)
	second, _ := recordsmemory.New().Identity(t.Context())
	assert.True(t, first != second, "both are %q", first)
}
