package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination/bolt"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// A call is paid once: another process that asks for the same key reads what the first one stored.
func ExampleLedger_Do() {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	claims, err := bolt.Open(filepath.Join(folder, "claims"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = claims.Close() }()
	store := blobmemory.New()
	key := ledger.Key(ledger.Extract, "prompt/1", "a-model", "temperature=0", "schema/1", "Fram sailed to Antarctica.")
	pay := func(context.Context) (ledger.Result, error) {
		fmt.Println("the model is called")
		return ledger.Result{Value: []byte("Fram, Antarctica")}, nil
	}
	for range 2 {
		process := ledger.New(store, claims)
		entry, paid, err := process.Do(context.Background(), ledger.Extract, key, 0, pay)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, paid by this call: %v\n", entry.Value, paid)
	}
	// Output:
	// the model is called
	// Fram, Antarctica, paid by this call: true
	// Fram, Antarctica, paid by this call: false
}
