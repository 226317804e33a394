package recordsmemory_test

import (
	"testing"


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
	if second, _ := recordsmemory.New().Identity(t.Context()); first == second {
		t.Errorf("both are %q", first)
	}
}
