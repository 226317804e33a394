package recordsmemory_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
)

func TestConformance(t *testing.T) {
	recordstest.Run(t, func(*testing.T) records.Store { return recordsmemory.New() })
}
