package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

func TestAProgramWithAnotherCodecKeyIsRefused(t *testing.T) {
	keyed := func() (config.Engine, string) {
		path := filepath.Join(t.TempDir(), "codec.key")
		key, err := codec.Create(path, "none")
		require.NoError(t, err)
		return config.Engine{CodecKey: path}, key.ID
	}
	first, id := keyed()
	other, otherID := keyed()
	store := blobmemory.New()
	for name, check := range map[string]func(config.Engine) error{
		"an installation without a key": func(e config.Engine) error { return engine.KeepKey(t.Context(), store, e) },
		"its control service":           func(e config.Engine) error { return engine.CheckKey(t.Context(), store, e) },
	} {
		assert.NoError(t, check(config.Engine{}), "%s", name)
	}
	if err := engine.CheckKey(t.Context(), store, other); err != nil { // it keeps nothing
		t.Error(err)
	}
	for range 2 {
		require.NoError(t, engine.KeepKey(t.Context(), store, first))
	}
	assert.NoError(t, engine.CheckKey(t.Context(), store, first))
	for name, test := range map[string]struct {
		engine config.Engine
		says   string
	}{
		"another key": {other, "this program has key " + otherID},
		"no key":      {config.Engine{}, "this program has none"},
	} {
		for _, err := range []error{
			engine.KeepKey(t.Context(), store, test.engine), engine.CheckKey(t.Context(), store, test.engine),
		} {
			if !fault.Is(err, fault.BadConfig) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), "encrypted with key "+id) || !strings.Contains(err.Error(), engine.KeyObject) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	missing := config.Engine{CodecKey: filepath.Join(t.TempDir(), "none")}
	if err := engine.KeepKey(t.Context(), store, missing); !fault.Is(err, fault.BadConfig) {
		t.Errorf("a key that is not there: %v", err)
	}
}
