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
