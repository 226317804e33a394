package box_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/box"
	"github.com/unweaver/unweaver/internal/document/documenttest"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestMain(m *testing.M) {
	misbehave()
	box.Child()
	os.Exit(m.Run())
}

// limits are small enough that a pill is known for one soon.
func limits() document.Limits {
	out := document.DefaultLimits()
	out.Time, out.Memory, out.Text = 2*time.Second, 192<<20, 4<<20
	return out
}

func newPool(t testing.TB, places int, limits document.Limits) *box.Pool {
	t.Helper()
	pool, err := box.New(places, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// parse reads a document to its end.
func parse(ctx context.Context, parser document.Parser, object, content string) (document.Doc, string, error) {
	kind, _, _, _ := document.KindOf(object)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	doc, err := parser.Parse(ctx, strings.NewReader(content), kind, object)
	if err != nil {
		return doc, "", err
	}
	raw, err := io.ReadAll(doc.Text)
	return doc, string(raw), err
}

func TestEachPillIsNamedAndTheNextDocumentIsParsed(t *testing.T) {
	pool := newPool(t, 1, limits())
	good := documenttest.PDF("All is well")
	for name, content := range documenttest.Pills() {
		start := time.Now()
		_, _, err := parse(t.Context(), pool, name, content)
		t.Logf("%-16s %6d bytes %6.2f s: %v", name, len(content), time.Since(start).Seconds(), err)
		known := fault.As(err)
		if known == nil || known.Kind != fault.Content || !strings.Contains(err.Error(), name) || known.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, text, err := parse(t.Context(), pool, "good.pdf", good); err != nil || !strings.Contains(text, "All is well") {
			t.Errorf("after %s: %q, %v", name, text, err)
		}
	}
}

func misbehave() { _ = fmt.Sprint }
