package retrievetest_test

import (
	"testing"

	"github.com/unweaver/unweaver/internal/retrieve/retrievetest"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobtest"
)

func TestBlobsKeepTheContractOfStores(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return retrievetest.NewBlobs() })
}
