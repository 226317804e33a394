package stage_test

import (
	"crypto/sha256"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// An object that changes between the listing and the reading, or while it is read, is read in one version alone.
func TestAnObjectIsReadInTheVersionThatWasListed(t *testing.T) {
	for name, c := range map[string]struct {
		changes int    // before so many readings
		content string // of the version that is read; empty: none is
		gone    bool   // it is removed in the end
	}{
		"at rest":         {0, "version 0", false},
		"changed once":    {1, "version 1", false},
		"changed thrice":  {3, "version 3", false},
		"never at rest":   {4, "", false},
		"gone by then":    {1, "", true},
		"gone in the end": {3, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, version := blobmemory.New(), 0
				change := func() blob.Info {
					content := "version " + string(rune('0'+version))
					version++
					info := stagetest.Must(blob.Write(t.Context(), store, "a.md", []byte(content), blob.Cond{}))
					return info
				}
				listed, content := change(), ""
				err := stage.ReadSteady(t.Context(), store, listed, func(now blob.Info) error {
					if version <= c.changes {
						if change(); c.gone && version > c.changes {
							require.NoError(t, store.Delete(t.Context(), "a.md"))
							return fault.Precondition.At("read", "a.md")
						}
					}
					body, err := stage.Open(t.Context(), store, now)
					if err != nil {
						return err
					}
					raw, err := io.ReadAll(body)
					if err != nil {
						return err
					}
					content = string(raw)
					digest, err := body.Digest(nil)
					want := core.Digest(sha256.Sum256(raw))
					assert.True(t, err == nil && digest == want, "digest %s, want %s, %v", digest, want, err)
					return body.Close()
				})
				assert.True(t, content == c.content && fault.Is(err, fault.DocumentChanged) == (c.content == ""),
					"read %q, want %q: %v", content, c.content, err)
				assert.True(t, !c.gone || strings.Contains(err.Error(), "removed"), "%v", err)
			})
		})
	}
}
