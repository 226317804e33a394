// Package codec keeps what runs exchange through Temporal from everybody who can reach its port: payloads are encrypted
// and authenticated (AES-256-GCM), and every start, signal, query, update and activity carries a seal. What does not
// open is refused and logged before anything runs. Names stay readable: ids of workflows, their types, task queues,
// search attributes, schedules (SECURITY.md says what they hold).
package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	encoding = "binary/encrypted"
	metaKey  = "encryption-key-id"
)

// Apply makes a client, and the workers made of it, exchange encrypted payloads only. It comes after everything else
// that sets the options' interceptors.
func Apply(options *client.Options, key *Key, log *slog.Logger) {
	codec := &payloads{key: key, log: log, bound: bindParts("unbound")}
	data := strict{converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec)}
	options.DataConverter = data
	// Failures travel from activities through children to parents as they are: they are bound to the key alone.
	options.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: data, EncodeCommonAttributes: true,
	})
	sealing := &sealer{codec: codec, log: log}
	options.Interceptors = append([]interceptor.ClientInterceptor{sealing}, options.Interceptors...)
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(sealing.sealRequest))
}

// payloads is the codec of one context: what is encrypted for one workflow, or for one type of activity of it, opens
// there alone.
type payloads struct {
	key   *Key
	log   *slog.Logger
	bound []byte // additional authenticated data
	place string // of the context, for the log
}

var _ converter.PayloadCodecWithSerializationContext = (*payloads)(nil)

// WithSerializationContext implements converter.PayloadCodecWithSerializationContext.
func (p *payloads) WithSerializationContext(context converter.SerializationContext) converter.PayloadCodec {
	bound := *p
	switch at := context.(type) {
	case converter.WorkflowSerializationContext:
		bound.place = "workflow " + at.WorkflowID
		bound.bound = bindParts("workflow", at.Namespace, scheduledID(at.WorkflowID))
	case converter.ActivitySerializationContext:
		bound.place = "activity " + at.ActivityType + " of " + at.WorkflowID
		bound.bound = bindParts("activity", at.Namespace, at.WorkflowID, at.ActivityType)
	}
	return &bound
}

// bindParts joins what a payload is bound to.
func bindParts(parts ...string) []byte {
	raw, _ := json.Marshal(append([]string{"unweaver/1"}, parts...)) // strings can be written
	return raw
}

// fired is what the engine adds to the id of a schedule's workflow when it starts one.
var fired = regexp.MustCompile(`-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// scheduledID returns the id that the workflow of a schedule had when its input was encrypted.
func scheduledID(id string) string { return fired.ReplaceAllString(id, "") }

// Encode implements converter.PayloadCodec.
func (p *payloads) Encode(plain []*common.Payload) ([]*common.Payload, error) {
	out := make([]*common.Payload, len(plain))
	for i, one := range plain {
		raw, err := proto.Marshal(one)
		if err != nil {
			return nil, err
		}
		out[i] = &common.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), metaKey: []byte(p.key.ID)},
			Data:     p.key.aead.Seal(nil, nil, raw, p.bound),
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec. What is not encrypted, or for another key or another place, is an error.
func (p *payloads) Decode(closed []*common.Payload) ([]*common.Payload, error) {
	out := make([]*common.Payload, len(closed))
	for i, one := range closed {
		var err error
		if out[i], err = p.openPayload(one); err != nil {
			p.log.Warn("refused a payload of the engine: it was not written by this installation",
				"at", p.place, "why", err.Error())
			return nil, err
		}
	}
	return out, nil
}

func (p *payloads) openPayload(closed *common.Payload) (*common.Payload, error) {
	if string(closed.GetMetadata()[converter.MetadataEncoding]) != encoding {
		return nil, errors.New("the payload is not encrypted")
	}
	if id := string(closed.GetMetadata()[metaKey]); id != p.key.ID {
		return nil, fmt.Errorf("the payload is encrypted with key %.32q, this process has %s", id, p.key.ID)
	}
	raw, err := p.key.aead.Open(nil, nil, closed.GetData(), p.bound)
	if err != nil {
		return nil, errors.New("the payload does not open: it is damaged, or was made for another place")
	}
	plain := &common.Payload{}
	return plain, proto.Unmarshal(raw, plain)
}

// strict is a data converter that refuses what is left out: to leave a payload out must not pass for a zero value.
type strict struct{ converter.DataConverter }

var errAbsent = errors.New("a payload is missing")

// FromPayload implements converter.DataConverter.
func (s strict) FromPayload(payload *common.Payload, value any) error {
	if payload == nil {
		return errAbsent
	}
	return s.DataConverter.FromPayload(payload, value)
}

// FromPayloads implements converter.DataConverter.
func (s strict) FromPayloads(payloads *common.Payloads, values ...any) error {
	if len(payloads.GetPayloads()) < len(values) {
		return errAbsent
	}
	return s.DataConverter.FromPayloads(payloads, values...)
}

// WithSerializationContext implements converter.DataConverterWithSerializationContext.
func (s strict) WithSerializationContext(context converter.SerializationContext) converter.DataConverter {
	return strict{converter.WithDataConverterSerializationContext(s.DataConverter, context)}
}
