package sandbox_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// BenchmarkParse compares this process with a child, on small documents and on the PDFs of a folder that
// UNWEAVER_BENCH_PDFS names. One operation is all documents of a set.
func BenchmarkParse(b *testing.B) {
	sets := map[string]map[string]string{
		"html": {"a.html": "<title>T</title>" + strings.Repeat("<h2>Salt</h2><p>Ships carry salt to the lake.</p>", 60)},
		"json": {"a.json": `{"title":"T","text":"` + strings.Repeat("Ships carry salt. ", 150) + `"}`},
		"pdf":  {"a.pdf": documenttest.PDF("Salt and ships")},
	}
	if folder := os.Getenv("UNWEAVER_BENCH_PDFS"); folder != "" {
		sets["pdfs"] = map[string]string{}
		names, _ := filepath.Glob(filepath.Join(folder, "*.pdf"))
		for _, name := range names {
			raw, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			sets["pdfs"][name] = string(raw)
		}
	}
	pool, err := sandbox.New(runtime.GOMAXPROCS(0), document.DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	here := documenttest.Here{Limits: document.DefaultLimits()}
	for name, set := range sets {
		for where, parser := range map[string]document.Parser{"here": here, "box": pool} {
			b.Run(name+"/"+where, func(b *testing.B) {
				for b.Loop() {
					for object, content := range set {
						kind, _, _ := document.TypeOf(object)
						ctx, cancel := context.WithCancel(b.Context())
						doc, err := parser.Parse(ctx, strings.NewReader(content), kind, object)
						if err == nil {
							_, err = io.Copy(io.Discard, doc.Text)
						}
						if err != nil {
							b.Fatal(object, err)
						}
						cancel()
					}
				}
			})
		}
	}
}
