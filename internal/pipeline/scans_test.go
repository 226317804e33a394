package pipeline_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const scanned = documenttest.ScannedPage

// withVision gives a site a model that transcribes pages.
func withVision(t *testing.T, s *site, server *modeltest.Server, pages string) {
	t.Helper()
	configured(t, s, "models.vision.base_url="+server.URL, "models.vision.model=eyes", "models.vision.api_key_env=",
		"models.vision.price.completion=1000000", "indexes.docs.documents.vision.pages="+pages)
	s.spec.Documents = &core.Documents{Vision: core.Vision{Pages: pages}}
}

// readDocuments returns the rows and texts of a generation's documents.
func readDocuments(t *testing.T, s *site, manifest *core.Manifest) (map[string]rows.Document, map[string]string) {
	t.Helper()
	documents, texts := map[string]rows.Document{}, map[string]string{}
	for part, segment := range manifest.Segments.Documents {
		text := must(textseg.Open(t.Context(), s.Artifacts, s.index().SegmentKey(manifest.Segments.Text[part].SHA256)))(t)
		for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
			require.NoError(t, err)
			key, document := string(row.Key), must(rows.DecodeDocument(row.Value))(t)
			documents[key] = document
			texts[key] = must(text.Slice(t.Context(), key, document.Frame, 0, document.Runes))(t)
		}
	}
	return documents, texts
}

func scans() map[string]string {
	return map[string]string{
		"note.md":            "# Note\n\nCarla Ruiz built the harbour of Port Alma.\n",
		"own.md":             "---\ntranscribed: by hand\n---\nAnna Berg owns the mill.\n",
		"scan.pdf":           documenttest.PDFOfPages(595, 842, "A page of text.", scanned+"Marie Curie was born in Warsaw.", "The last page."),
		"scan.pdf.meta.json": `{"transcribed": "1-3"}`,
		// 400 megapixels at one a point.
		"huge.pdf": documenttest.PDFOfPages(20_000, 20_000, scanned+"Pierre Curie died in Paris."),
	}
}

// Pages without text are transcribed once: an estimate counts them, a run pays for them, and whatever is built later of
// the same file finds them in the ledger, and comes to the same.
func TestScannedPagesAreTranscribedOnce(t *testing.T) {
	t.Parallel()
	server := modeltest.Start(t, modeltest.Options{})
	asked := func() int64 { return server.Stats().Tasks["transcribe"].Calls }
	s := newSite(t, scans())

	_, texts := readDocuments(t, s, s.night(t).manifest)
	assert.NotContains(t, texts["scan.pdf"], "Curie")
	assert.EqualValues(t, 1, s.report(t).DocumentsEmpty, "one has no text at all")

	withVision(t, s, server, core.PagesScanned)
	due := estimated(t, s.estimating())
	assert.Equal(t, core.Range{Low: 2, High: 2}, due.Estimate.Transcribe)
	assert.Positive(t, due.Estimate.Cost.Low)
	assert.Zero(t, asked(), "an estimate asks nothing")

	built := s.night(t).manifest
	report := s.report(t)
	documents, texts := readDocuments(t, s, built)
	assert.EqualValues(t, 2, asked())
	assert.EqualValues(t, 2, report.Calls.Transcribe)
	assert.InDelta(t, float64(server.Stats().Tasks["transcribe"].Completion), report.Cost, 1e-6)
	assert.Empty(t, report.Problems)
	assert.Equal(t, "A page of text.\n\f\nMarie Curie was born in Warsaw.\n\f\nThe last page.\n\f\n", texts["scan.pdf"])
	assert.Contains(t, texts["huge.pdf"], "Pierre Curie died in Paris.")
	assert.Equal(t, "2", documents["scan.pdf"].Meta[core.MetaTranscribed])
	assert.NotContains(t, documents["note.md"].Meta, core.MetaTranscribed)
	assert.Equal(t, "by hand", documents["own.md"].Meta[core.MetaTranscribed])
	assert.Contains(t, documents["scan.pdf"].Chunks[0].Rects, core.Rect{Page: 2, Right: 595, Bottom: 842})

	listed := map[core.Digest]bool{}
	for key := range musttest.All(t, collect.ListKeys(t.Context(), []artifact.Index{s.index()}, ledger.Transcribe)) {
		listed[key] = true
	}
	assert.Len(t, listed, 2, "upkeep of the ledger and purges know them")

	assert.True(t, s.night(t).planned.Unchanged)
	again := s.copied(t)
	again.spec.Index = "again"
	again.Models = s.Models
	from := again.night(t).manifest
	assert.Equal(t, built.Hashes.Content, from.Hashes.Content, "from nothing, over the same ledger")
	assert.Equal(t, built.Hashes.Text, from.Hashes.Text)
	assert.EqualValues(t, 2, again.report(t).LedgerHits.Transcribe)
	assert.EqualValues(t, 2, asked())

	withVision(t, s, server, core.PagesAll)
	documents, texts = readDocuments(t, s, s.night(t).manifest)
	assert.EqualValues(t, 4, asked(), "those with text, too")
	assert.Equal(t, "A page of text.\n\f\nMarie Curie was born in Warsaw.\n\f\nThe last page.\n\f\n", texts["scan.pdf"],
		"an empty answer deletes no text")
	assert.Equal(t, "2", documents["scan.pdf"].Meta[core.MetaTranscribed])
}

// A model without image input costs the pages their text and nothing else, and says what to change; the next round of
// retry-failed asks again. What is paid before a budget ends is not paid again.
func TestPagesThatAreNotTranscribedAreProblems(t *testing.T) {
	t.Parallel()
	server := modeltest.Start(t, modeltest.Options{Blind: true})
	s := newSite(t, scans())
	withVision(t, s, server, core.PagesScanned)
	_, texts := readDocuments(t, s, s.night(t).manifest)
	assert.Equal(t, "A page of text.\n\f\n\n\f\nThe last page.\n\f\n", texts["scan.pdf"])
	report := s.report(t)
	require.Len(t, report.Problems, 2)
	for _, problem := range report.Problems {
		assert.Contains(t, problem.Detail, "pictures_refused")
		assert.Contains(t, problem.Detail, "set models.vision.model to a model that takes images", problem.Object)
	}
	assert.Zero(t, report.Calls.Transcribe)
	assert.True(t, s.night(t).planned.Unchanged)

	s.attempt = 1
	failed := s.night(t).manifest
	assert.True(t, failed.Round == 1 && failed.Counts.Untranscribed == 2, "%+v", failed.Counts)

	server.Set(modeltest.Options{})
	s.attempt, s.spec.Budget = 2, core.Budget{Calls: 1}
	job, holder := s.leased(t)
	musttest.Refuse(s.stages(t.Context(), job, holder))(t, fault.BudgetSpent)
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: core.StatusFailed}))
	s.spec.Budget = core.Budget{}
	mended := s.night(t).manifest
	assert.True(t, mended.Round == 2 && mended.Counts.Untranscribed == 0, "%+v", mended.Counts)
	_, texts = readDocuments(t, s, mended)
	assert.Contains(t, texts["scan.pdf"]+texts["huge.pdf"], "Marie Curie")
	assert.EqualValues(t, 2, server.Stats().Tasks["transcribe"].Calls)
}

// withDocling gives a site a docling-serve for PDFs.
func withDocling(t *testing.T, s *site, url string, set ...string) {
	t.Helper()
	parser := "indexes.docs.documents.parser."
	cfg := must(config.Load(config.Source{Set: append([]string{
		parser + "provider=docling", parser + "base_url=" + url, parser + "api_key_env=DOCLING_TEST_KEY",
	}, set...)}))(t)
	spec := must(cfg.Spec(s.spec.Index, s.corpus))(t)
	s.spec.Documents = spec.Documents
	s.Converter = app.NewModels(s.Coordination, cfg).Converter
}

// A server for documents parses a file once, and what it made of it is in the ledger; where it fails or does not end,
// UnWeaver's own parser reads the file, a problem says so, and the next run asks again.
func TestAParserOfDocumentsIsAskedOnce(t *testing.T) {
	t.Setenv("DOCLING_TEST_KEY", "a-secret-key")
	docling := &documenttest.Docling{Key: "a-secret-key", Answer: func(string) (string, string) {
		return "## First\n\nMarie &amp; Pierre\n\n<!-- image -->\n\n\f\n\n| a\\_b | c |", "success"
	}}
	server := httptest.NewServer(docling)
	t.Cleanup(server.Close)
	s := newSite(t, scans())
	built := func() (string, rows.Document, core.Report) {
		documents, texts := readDocuments(t, s, s.night(t).manifest)
		return texts["scan.pdf"], documents["scan.pdf"], s.report(t)
	}
	withDocling(t, s, server.URL)
	assert.Zero(t, estimated(t, s.estimating()).Estimate.Cost.High)
	assert.Zero(t, docling.Posts.Load(), "an estimate asks nothing")
	text, document, report := built()
	assert.Equal(t, "## First\n\nMarie & Pierre\n\f\n| a_b | c |\n\f\n", text)
	assert.Equal(t, "docling", document.Meta["parser"])
	assert.Empty(t, report.Problems)
	assert.EqualValues(t, 2, docling.Posts.Load(), "two PDFs")
	again := s.copied(t)
	again.spec.Index, again.Converter = "again", s.Converter
	again.night(t)
	assert.EqualValues(t, 2, docling.Posts.Load())

	other := httptest.NewServer(docling)
	t.Cleanup(other.Close)
	withDocling(t, s, other.URL)
	built()
	assert.EqualValues(t, 4, docling.Posts.Load(), "of another server, which the first cannot answer for")
	assert.True(t, s.night(t).planned.Unchanged)

	docling.Answer = func(string) (string, string) { return "", "failure" }
	withDocling(t, s, server.URL, "indexes.docs.documents.parser.version=2")
	text, _, report = built()
	assert.Equal(t, "A page of text.\n\f\n\n\f\nThe last page.\n\f\n", text, "its own parser")
	assert.Contains(t, report.Problems[len(report.Problems)-1].Detail, "its task ended with failure")
	assert.True(t, s.night(t).planned.Unchanged, "it is the file's")

	docling.Answer = func(string) (string, string) { return "", "never" }
	withDocling(t, s, server.URL, "indexes.docs.documents.parser.version=3", "indexes.docs.documents.parser.timeout=50ms")
	text, _, report = built()
	assert.Contains(t, text, "A page of text.")
	detail := report.Problems[len(report.Problems)-1].Detail
	assert.Contains(t, detail, "it was not done within 50ms")
	assert.NotContains(t, detail, server.URL)
	docling.Answer = func(string) (string, string) { return "now", "success" }
	withDocling(t, s, server.URL, "indexes.docs.documents.parser.version=3")
	text, _, _ = built()
	assert.Equal(t, "now\n\f\n", text, "the next run asks again")
}
