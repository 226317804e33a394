package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/serviceerror"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/fault"
)

var at = config.Engine{Address: "127.0.0.1:1", Namespace: "builds"}

func TestErrorsOfTemporalBecomeFaults(t *testing.T) {
	own := fault.StoreDown.At("read", "redis")
	for name, c := range map[string]struct {
		err  error
		code fault.Code
		says string
	}{
		"a run that it does not know": {serviceerror.NewNotFound("no"), fault.RunNotFound, "or it has ended"},
		"a namespace that is not": {
			serviceerror.NewNamespaceNotFound("builds"), fault.EngineDown, "namespace builds: the namespace does not exist",
		},
		"no permission":   {serviceerror.NewPermissionDenied("no", ""), fault.EngineDown, "engine.api_key_env"},
		"anything else":   {errors.New("reset"), fault.EngineDown, "127.0.0.1:1: reset"},
		"wrapped":         {fmt.Errorf("start: %w", serviceerror.NewNotFound("no")), fault.RunNotFound, ""},
		"a fault of ours": {own, fault.StoreDown, "redis"},
	} {
		t.Run(name, func(t *testing.T) {
			got := engine.ToFault(c.err, at)
			if !fault.Is(got, c.code) || !strings.Contains(got.Error(), c.says) {
				t.Errorf("got %v (%s), want %s", got, fault.CodeOf(got), c.code)
			}
		})
	}
	assert.NoError(t, engine.ToFault(nil, at), "nil became an error")
}

func TestATemporalThatCannotBeReached(t *testing.T) {
	keyed := at
	keyed.APIKeyEnv = "ENGINE_TEST_UNSET"
	for name, c := range map[string]struct {
		engine config.Engine
		code   fault.Code
		says   string
	}{
		"nothing listens":    {at, fault.EngineDown, "engine.address"},
		"its key is not set": {keyed, fault.BadConfig, "ENGINE_TEST_UNSET is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.Dial(t.Context(), c.engine, slog.New(slog.DiscardHandler))
			if !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "127.0.0.1:1") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A failed attempt is reported by the run's own state; the engine's line about it may hold what must not be logged.
func TestFailedAttemptsAreLoggedForThoseWhoDebug(t *testing.T) {
	for name, c := range map[string]struct {
		level   slog.Level
		message string
		shown   bool
	}{
		"a failed attempt":                   {slog.LevelInfo, "Activity error.", false},
		"a failed attempt, in debugging":     {slog.LevelDebug, "Activity error.", true},
		"a late heartbeat":                   {slog.LevelInfo, "RecordActivityHeartbeat with error", false},
		"anything else that the engine says": {slog.LevelInfo, "Workflow panic", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := engine.Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: c.level})))
			logger.Error(c.message, "ActivityType", "ExtractChunks")
			if shown := strings.Contains(out.String(), c.message); shown != c.shown {
				t.Errorf("logged %q", out.String())
			}
		})
	}
	var out bytes.Buffer
	base := engine.Logger(slog.New(slog.NewTextHandler(&out, nil).WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)})))
	base.Warn("kept")
	base.Info("Started Worker")
	base.Error("Activity error.")
	if !strings.Contains(out.String(), "kept") || strings.Contains(out.String(), "Activity error.") ||
		strings.Contains(out.String(), "Started Worker") {
		t.Errorf("logged %q", out.String())
	}
}
