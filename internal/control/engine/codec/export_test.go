package codec

import (
	"log/slog"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/interceptor"
)

// Sealed returns what checks the starts of workflows, and a header with a seal that is made by hand.
func Sealed(key *Key, kind, name, id, run string, at time.Time) (interceptor.WorkerInterceptor, *common.Header, error) {
	log := slog.New(slog.DiscardHandler)
	sealing := &sealer{codec: &payloads{key: key, log: log, bound: bindParts("unbound")}, log: log}
	var header *common.Header
	return sealing, header, sealing.putSeal(&header, seal{Kind: kind, Name: name, ID: id, Run: run, At: at})
}

// CarryFields returns the fields of a header after it was sealed and opened.
func CarryFields(key *Key, fields map[string]*common.Payload) (map[string]*common.Payload, error) {
	log := slog.New(slog.DiscardHandler)
	sealing := &sealer{codec: &payloads{key: key, log: log, bound: bindParts("unbound")}, log: log}
	header := &common.Header{Fields: fields}
	if err := sealing.putSeal(&header, seal{Kind: kindSignal}); err != nil {
		return nil, err
	}
	_, err := sealing.openSeal(header.Fields)
	return header.Fields, err
}
