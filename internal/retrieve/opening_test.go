package retrieve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// Files that are mapped come beside each other but for the first, and of one that is read by range the end comes in one
// request.
func TestAnOpeningIsAShortChainOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 15 * time.Millisecond
		stores := retrievetest.NewStores(t)
		built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
		requests := distance.New(wait)
		far := distance.Blob(stores.Blobs, requests)
		began := time.Now()
		generation, err := retrieve.Open(t.Context(), far, stores.Cache, stores.Vectors, "sample", built.SHA, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer generation.Close()
		took, counted := time.Since(began), requests.Take()
		t.Logf("%s\n%s", took, counted)
		if took > 4*wait { // manifest, settings, splits and class runs, all others
			t.Errorf("%s for an opening at %s a request", took, wait)
		}
		if n := counted.Of("", distance.Head); n != 0 {
			t.Errorf("the size of %d files was asked for, which the manifest says", n)
		}
	})
}
