package artifacttest_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
)

// What tests believe about the memory store must be what holds of the real ones.
func TestConformance(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return artifacttest.New() })
}
