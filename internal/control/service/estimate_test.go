package service_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// An estimate of what this process would refuse is given all the same, and says so.
func TestAnEstimateSaysThatTheModelServerWouldBeRefused(t *testing.T) {
	b := newBench(t)
	spec := b.spec("docs")
	spec.Chat = core.ChatModel{Provider: "openai", Model: "m", BaseURL: "http://elsewhere/v1", APIKeyEnv: "KEY"}
	report := core.Report{Problems: []core.Problem{{Code: "x"}}, ProblemsTotal: 1}
	service.Unallowed(b.Service, spec, &report)
	if report.ProblemsTotal != 2 || len(report.Problems) != 2 || report.Problems[1].Code != string(fault.EndpointRefused) {
		t.Errorf("%+v", report)
	}
	spec.Chat.BaseURL, spec.Chat.APIKeyEnv = "http://127.0.0.1:1/v1", "OPS_TEST_KEY"
	service.Unallowed(b.Service, spec, &report)
	assert.Equal(t, int64(2), report.ProblemsTotal, "allowed: %+v", report)
}
