package codec_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
)

// keyed returns the data converter of an installation, for a workflow.
func keyed(t *testing.T, key *codec.Key, log *bytes.Buffer, namespace, id string) converter.DataConverter {
	t.Helper()
	var options client.Options
	codec.Apply(&options, key, slog.New(slog.NewTextHandler(log, nil)))
	return converter.WithDataConverterSerializationContext(options.DataConverter,
		converter.WorkflowSerializationContext{Namespace: namespace, WorkflowID: id})
}

func TestAPayloadOpensForItsOwnPlaceAlone(t *testing.T) {
	_, _, key := made(t)
	_, _, other := made(t)
	var log bytes.Buffer
	own := keyed(t, key, &log, "default", "build/docs/g1")
	closed, err := own.ToPayloads("Alfred Nobel")
	require.True(t, err == nil && !bytes.Contains(closed.Payloads[0].GetData(), []byte("Nobel")), "%v, %v", closed, err)
	twice, err := own.ToPayloads("Alfred Nobel")
	assert.True(t, err == nil && !bytes.Equal(twice.Payloads[0].GetData(), closed.Payloads[0].GetData()),
		"the same text looks the same: %v", err)
	var text string
	if err := own.FromPayloads(closed, &text); err != nil || text != "Alfred Nobel" {
		t.Fatalf("%q, %v", text, err)
	}
	ofSchedule, err := keyed(t, key, &log, "default", "unweaver/docs").ToPayloads("night")
	require.NoError(t, err)
	fired := keyed(t, key, &log, "default", "unweaver/docs-2026-11-27T18:00:00Z")
	if err := fired.FromPayloads(ofSchedule, &text); err != nil || text != "night" {
		t.Errorf("a schedule's workflow cannot read its input: %v", err)
	}
	plain, err := converter.GetDefaultDataConverter().ToPayloads("plain")
	require.NoError(t, err)
	bent := proto.CloneOf(closed)
	bent.Payloads[0].Data[20] ^= 1
	passing := proto.CloneOf(plain)
	passing.Payloads[0].Metadata[converter.MetadataEncoding] = []byte("binary/encrypted")
	short := proto.CloneOf(closed)
	short.Payloads[0].Data = short.Payloads[0].Data[:5]
	log.Reset()
	for name, test := range map[string]struct {
		by   converter.DataConverter
		sent *common.Payloads
	}{
		"plain":                     {own, plain},
		"plain, called encrypted":   {own, passing},
		"changed":                   {own, bent},
		"cut off":                   {own, short},
		"none":                      {own, nil},
		"an empty list":             {own, &common.Payloads{}},
		"an empty one":              {own, &common.Payloads{Payloads: []*common.Payload{{}}}},
		"with another key":          {keyed(t, other, &log, "default", "build/docs/g1"), closed},
		"for another workflow":      {keyed(t, key, &log, "default", "build/docs/g2"), closed},
		"for another namespace":     {keyed(t, key, &log, "builds", "build/docs/g1"), closed},
		"of a schedule, for a name": {keyed(t, key, &log, "default", "unweaver/docs-2"), ofSchedule},
		"for an activity": {converter.WithDataConverterSerializationContext(own, converter.ActivitySerializationContext{
			Namespace: "default", WorkflowID: "build/docs/g1", ActivityType: "PlanBuild",
		}), closed},
	} {
		text = ""
		err := test.by.FromPayloads(test.sent, &text)
		assert.True(t, err != nil && text == "", "%s: read %q, %v", name, text, err)
	}
	assert.True(t, strings.Contains(log.String(), "refused a payload") && !strings.Contains(log.String(), "Nobel"),
		"logged %s", log.String())
	assert.Error(t, own.FromPayload(nil, &text), "no payload passes for an empty one")
}
