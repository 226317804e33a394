package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
)

func TestVariablesThatKubernetesInjectsAreIgnored(t *testing.T) {
	cfg := must(config.Load(config.Source{Env: []string{
		"UNWEAVER_SERVICE_HOST=10.96.0.1", "UNWEAVER_PORT=tcp://10.96.0.1:8080", "UNWEAVER_QUERY_API_SERVICE_HOST=10.96.0.7",
		"UNWEAVER_QUERY_API_SERVICE_PORT=8080", "UNWEAVER_QUERY_API_SERVICE_PORT_HTTP=8080",
		"UNWEAVER_QUERY_API_PORT=tcp://10.96.0.7:8080", "UNWEAVER_QUERY_API_PORT_8080_TCP=tcp://10.96.0.7:8080",
		"UNWEAVER_QUERY_API_PORT_8080_TCP_ADDR=10.96.0.7", "UNWEAVER_QUERY_API_PORT_8080_TCP_PORT=8080",
		"UNWEAVER_QUERY_API_PORT_8080_TCP_PROTO=tcp", "UNWEAVER_DNS_PORT_53_UDP_ADDR=10.96.0.10",
		"UNWEAVER_QUERY_API_ADDRESS=0.0.0.0:8080", "HOME=/root",
	}}))(t)
	assert.Equal(t, "0.0.0.0:8080", cfg.QueryAPI.Address, "a key among them is not read")
}

func TestUnknownVariablesStayMistakes(t *testing.T) {
	for _, tc := range []struct{ variable, want string }{
		{"UNWEAVER_MODELS_CHAT_COLOUR=red", "no such key"},
		{"UNWEAVER_STORES=s3://bucket", "no such key"},
		{"UNWEAVER_QUERY_API_PORTS=8080", "no such key"},
		{"UNWEAVER_QUERY_API_PORT_8080=x", "no such key"},
		{"UNWEAVER_QUERY_API_SERVICE=x", "no such key"},
		{"UNWEAVER_QUERY_API_PORT_8080_TCP_NAME=x", "no such key"},
		{"UNWEAVER_INDEXES_OTHER_KEEP=2", "use --set indexes.NAME"},
		{"UNWEAVER_WORKER_SLOTS=many", `"many" is not a whole number`},
	} {
		_, err := load(t, "indexes: {docs: {}}\n", []string{tc.variable}, nil)
		name, _, _ := strings.Cut(tc.variable, "=")
		assert.True(t, err != nil && strings.Contains(err.Error(), "variable "+name+": ") &&
			strings.Contains(err.Error(), tc.want), "%s: %v", tc.variable, err)
	}
}

func TestVariablesThatProgramsReadThemselvesAreNoKeys(t *testing.T) {
	_, err := config.Load(config.Source{Env: []string{
		"UNWEAVER_DATA_DIR=/x", "UNWEAVER_CONFIG=/y", "UNWEAVER_CACHE_DIR=/c", "UNWEAVER_TEST_REDIS=redis://127.0.0.1",
	}})
	assert.NoError(t, err)
}
