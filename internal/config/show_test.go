package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
)

func settings(t *testing.T, cfg *config.Config) map[string]config.Setting {
	t.Helper()
	out := map[string]config.Setting{}
	for _, s := range cfg.Settings() {
		_, twice := out[s.Key]
		assert.False(t, twice, "%s is listed twice", s.Key)
		out[s.Key] = s
	}
	return out
}

func TestEverySettingSaysWhereItCameFrom(t *testing.T) {
	cfg := mustLoad(t,
		"worker: { slots: 9 }\nmodels:\n  limits:\n    concurrency: 3\nindexes: { docs: { grace: 48h, keep: } }\n",
		[]string{"UNWEAVER_MODELS_LIMITS_CONCURRENCY=4", "UNWEAVER_ENGINE_TLS=true"},
		[]string{"engine.tls=false", "indexes.docs.models.chat.model=own"})
	got := settings(t, cfg)
	for _, want := range []config.Setting{
		{Key: "worker.slots", Value: 9, Origin: config.FromFile, At: "unweaver.yaml:1:18", Text: "9"},
		{
			Key: "models.limits.concurrency", Value: 4, Origin: config.FromVariable,
			At: "variable UNWEAVER_MODELS_LIMITS_CONCURRENCY", Text: "4",
		},
		{Key: "engine.tls", Value: false, Origin: config.FromSet, At: "--set engine.tls", Text: "false"},
		{Key: "worker.pollers", Value: 4, Origin: config.FromDefault, Text: "4"},
		{Key: "indexes.docs.keep", Value: 3, Origin: config.FromDefault, Text: "3"},
		{
			Key: "indexes.docs.models.chat.model", Value: "own", Origin: config.FromSet,
			At: "--set indexes.docs.models.chat.model", Text: "own",
		},
	} {
		have := got[want.Key]
		if i := strings.LastIndexByte(have.At, '/'); have.Origin == config.FromFile {
			have.At = have.At[i+1:]
		}
		assert.True(t, have == want, "want %+v\ngot  %+v", want, have)
	}
	grace := got["indexes.docs.grace"]
	assert.True(t, grace.Text == "48h" && grace.Origin == config.FromFile, "%+v", grace)
	_, listed := got["indexes.docs.models.chat.provider"]
	assert.True(t, !listed, "a model setting that the index does not give is listed as its own")
	if raw, err := json.Marshal(got["indexes.docs.grace"]); err != nil || !strings.Contains(string(raw), `"48h0m0s"`) {
		t.Errorf("%s %v", raw, err)
	}
}

func TestPasswordsOfStoresAreNotShown(t *testing.T) {
	cfg := mustLoad(t, "", nil,
		[]string{"stores.classes=redis://:verysecret@redis:6379/0", "stores.vectors=milvus://root:verysecret@milvus:19530"})
	got := settings(t, cfg)
	assert.True(t, got["stores.classes"].Text == "redis://:xxxxx@redis:6379/0" &&
		got["stores.vectors"].Value == "milvus://root:xxxxx@milvus:19530", "%+v %+v", got["stores.classes"],
		got["stores.vectors"])
	assert.Equal(t, "redis://:verysecret@redis:6379/0", cfg.Stores.Classes, "showing a setting changes it")
}
