package pipeline_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// killed is a parser that somebody kills whenever it reads one document.
type killed struct {
	document.Parser
	by    string // name of the document; empty: of none
	tries int
}

func (k *killed) Parse(
	ctx context.Context, reader io.Reader, kind document.Kind, object string,
) (document.Doc, error) {
	if object == k.by {
		k.tries++
		return document.Doc{}, fault.Quarantined.At("read", object).Because("killed")
	}
	return k.Parser.Parse(ctx, reader, kind, object)
}

// A document that breaks what reads it is tried again every night, and publishes nothing as long as it goes on so.
func TestANightWithTheSameQuarantinedDocumentPublishesNothing(t *testing.T) {
	s := newSite(t, sample(6))
	s.spec.Failures = core.Failures{Share: 0.5}
	parser := &killed{Parser: s.Parser, by: "place-002.md"}
	s.Parser = parser
	if first := s.night(t); first.manifest == nil || first.manifest.Counts.Failed != 1 {
		t.Fatalf("%+v", first)
	}
	for range 2 {
		tries := parser.tries
		out := s.night(t)
		require.True(t, out.equalsParent && out.manifest.Generation == "g001" && parser.tries != tries,
			"%+v, tried %d times", out, parser.tries-tries)
		report := s.report(t)
		if !report.Unchanged || report.Status != core.StatusErrors || report.DocumentsFailed != 1 ||
			report.ProblemsTotal != 1 || report.ProblemsPath == "" || report.Diff.Changed != 0 || report.Diff.Same != 6 ||
			len(report.Problems) != 1 || report.Problems[0].Object != parser.by ||
			!strings.Contains(report.Problems[0].Detail, "killed") {
			t.Errorf("%+v", report)
		}
	}
	s.write(t, map[string]string{"place-001.md": "# Harbour 1\n\nIt was moved to Lake Verin.\n"})
	if out := s.night(t); out.equalsParent || out.manifest.Generation != "g004" || out.manifest.Counts.Failed != 1 {
		t.Errorf("something else changed: %+v", out)
	}
	parser.by = ""
	if out := s.night(t); out.equalsParent || out.manifest.Generation != "g005" || out.manifest.Counts.Failed != 0 {
		t.Errorf("it can be read again: %+v", out)
	}
	if out := s.night(t); !out.planned.Unchanged {
		t.Errorf("%+v", out)
	}
}

// Only a publication keeps the limits that documents met: without one each later night would try all of them again.
func TestANightWithOtherLimitsIsPublishedOnce(t *testing.T) {
	s := newSite(t, sample(6))
	s.write(t, map[string]string{"large.md": "# Large\n\n" + strings.Repeat("Salt from Tolmin. ", 200)})
	s.spec.Failures = core.Failures{Share: 0.5}
	limited := func(bytes int64) {
		s.Limits.Text = bytes
		s.Parser = documenttest.Here{Limits: s.Limits}
	}
	limited(2000)
	if first := s.night(t); first.manifest.Counts.Failed != 1 {
		t.Fatalf("%+v", first.manifest.Counts)
	}
	limited(3000)
	if out := s.night(t); out.equalsParent || out.manifest.Generation != "g002" || out.manifest.Counts.Failed != 1 {
		t.Errorf("%+v", out)
	}
	if out := s.night(t); !out.planned.Unchanged {
		t.Errorf("the same limits: %+v", out)
	}
}
