package vectorsmemory_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorstest"
)

func TestConformance(t *testing.T) {
	vectorstest.Run(t, func(*testing.T) vectors.Store { return vectorsmemory.New() })
}
