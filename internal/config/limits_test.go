package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
)

func TestLimitsOfDocumentsAreWhatParsersTake(t *testing.T) {
	assert.Equal(t, document.DefaultLimits(), config.Default().DocumentLimits(), "nothing configured")
	cfg := config.Default()
	cfg.Limits.Document = config.DocumentLimits{
		Bytes: 1, Ratio: 2, Text: 3, Title: 4, Row: 5, Spans: 6, Nesting: 7, Pages: 8, Seconds: 9, Memory: 10,
	}
	want := document.Limits{
		Bytes: 1, Ratio: 2, Text: 3, Title: 4, Row: 5, Spans: 6, Nesting: 7, Pages: 8, Time: 9 * time.Second, Memory: 10,
	}
	assert.Equal(t, want, cfg.DocumentLimits())
}

func TestWhatDocumentsHideIsReadWhereTheIndexSaysSo(t *testing.T) {
	cfg := config.Default()
	cfg.Indexes["docs"] = config.Index{Documents: core.Documents{Hidden: "omit"}}
	usual, err := cfg.Spec("docs", t.TempDir())
	assert.True(t, err == nil && usual.Documents == nil, "nothing configured: %+v, %v", usual.Documents, err)
	index := cfg.Indexes["docs"]
	index.Documents.Hidden = "include"
	cfg.Indexes["docs"] = index
	with, err := cfg.Spec("docs", usual.Corpus)
	assert.True(t, err == nil && with.Documents != nil && with.Documents.Hidden == "include" &&
		with.ConfigDigest() != usual.ConfigDigest(), "include: %+v, %v", with.Documents, err)
	cfg.Indexes["docs"] = config.Index{Documents: core.Documents{Attachments: true}}
	with, err = cfg.Spec("docs", usual.Corpus)
	assert.True(t, err == nil && with.Documents != nil && with.Documents.Attachments &&
		with.ConfigDigest() != usual.ConfigDigest(), "attachments: %+v, %v", with.Documents, err)
}
