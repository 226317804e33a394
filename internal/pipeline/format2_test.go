package pipeline_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	blobmemory "github.com/unweaver/unweaver/internal/store/blob/memory"
	recordsmemory "github.com/unweaver/unweaver/internal/store/records/memory"
	vectorsmemory "github.com/unweaver/unweaver/internal/store/vectors/memory"
)

// unpacked is a site with the artifacts and the corpus of a file of testdata (README.md there); records and vectors are
// lost.
func unpacked(t *testing.T, name string) *site {
	t.Helper()
	archive, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	artifacts, files := blobmemory.New(), map[string]string{}
	for _, part := range archive.File {
		body, err := part.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			t.Fatal(err)
		}
		if document, ok := strings.CutPrefix(part.Name, "corpus/"); ok {
			files[document] = string(raw)
			continue
		}
		key := strings.TrimPrefix(part.Name, "store/")
		if _, err := artifacts.Put(t.Context(), key, bytes.NewReader(raw), int64(len(raw)), blob.Cond{}); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, files)
	s.open(t, artifacts, recordsmemory.New(), vectorsmemory.New())
	s.runs = 2 // it was made by two nights
	return s
}

// away names a site's corpus as the files of testdata do, wherever it is.
func away(s *site) {
	s.spec.Corpus = "/corpus"
	s.Corpora = func(context.Context, string) (blob.Store, error) { return dir.OpenCorpus(s.corpus) }
}

// A generation that a program wrote before class records lost their members (manifests of format 2) is restored and
// answers as one of today does; the next night that changes anything makes all of it again beside it, and pays for what
// changed alone.
func TestAGenerationOfFormat2IsServedAndUpgradedByANight(t *testing.T) {
	s := unpacked(t, "testdata/format-2.zip")
	sold := paying(s)
	away(s)
	if err := s.restore(t); err != nil {
		t.Fatal(err)
	}
	served := s.current(t)
	if served.Format != core.ManifestSplits || len(served.Segments.Splits) != 2 || len(served.Segments.Tombs) == 0 {
		t.Fatalf("format %d: %+v", served.Format, served.Segments)
	}
	s.whole(t)
	today := newSite(t, nil)
	paying(today)
	today.corpus = s.corpus
	away(today)
	if fresh := today.night(t); fresh.manifest.Hashes != served.Hashes {
		t.Errorf("%+v, from nothing %+v", served.Hashes, fresh.manifest.Hashes)
	}
	answersAlike(t, s, today)
	if same := s.night(t); !same.planned.Unchanged {
		t.Errorf("nothing changed: %+v", same.planned)
	}
	extract, shorten, texts, _ := sold.sold(nil)
	if extract+shorten+texts > 0 {
		t.Errorf("%d extractions, %d summaries and %d texts were paid for, and nothing changed", extract, shorten, texts)
	}

	s.write(t, map[string]string{"place-002.md": "# Harbour 2\n\nIt was moved to Tolmin.\n"})
	upgraded := s.night(t)
	if upgraded.manifest.Format != core.ManifestPlaced || len(upgraded.manifest.Segments.Splits) != 1 ||
		len(upgraded.manifest.Segments.Tombs) != 0 {
		t.Fatalf("format %d: %+v", upgraded.manifest.Format, upgraded.manifest.Segments)
	}
	if extract, _, _, twice := sold.sold(nil); extract != 1 || twice != 0 {
		t.Errorf("%d extractions were paid for, and %d texts twice, where one document changed", extract, twice)
	}
	if fresh := today.night(t); fresh.manifest.Hashes != upgraded.manifest.Hashes {
		t.Errorf("%+v, from nothing %+v", upgraded.manifest.Hashes, fresh.manifest.Hashes)
	}
	answersAlike(t, s, today)
}

// answersAlike asks two sites a few questions by every method.
func answersAlike(t *testing.T, got, want *site) {
	t.Helper()
	have, other := openGeneration(t, got), openGeneration(t, want)
	defer have.Close()
	defer other.Close()
	for _, method := range retrieve.Methods().Plain() {
		found := 0
		for _, question := range []string{"Who built the harbour of Port Alma 3?", "What do ships carry to Lake Verin?"} {
			first, second := answerOf(t, got, have, method, question), answerOf(t, want, other, method, question)
			if !slices.Equal(first, second) {
				t.Errorf("%s, %q:\n%s\nwant\n%s", method, question, strings.Join(first, "\n"), strings.Join(second, "\n"))
			}
			found += len(first)
		}
		if found == 0 {
			t.Errorf("%s found nothing", method)
		}
	}
}
