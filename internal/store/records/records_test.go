package records_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
)

// A store in memory keeps the contract, so nothing of it requires a file or a server.
func TestTheContractHoldsInMemory(t *testing.T) {
	recordstest.Run(t, func(*testing.T) records.Store { return recordsmemory.New() })
}
