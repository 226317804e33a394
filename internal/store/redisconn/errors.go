package redisconn

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// Wrap makes a fault of a reply: which setting or which state of the server is to be mended.
func (c *Conn) Wrap(ctx context.Context, op string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, refusal := range refusals {
		for _, prefix := range refusal.prefixes {
			if strings.HasPrefix(err.Error(), prefix) {
				return refusal.code.At(op, c.name).Because(err).Advise(refusal.advice)
			}
		}
	}
	return fault.StoreDown.At(op, c.name).Because(err).Advise("check stores.classes and that Redis runs")
}

// refusals by how the reply begins. Every other error is a server that cannot be reached, is loading or fails over.
var refusals = []struct {
	code     fault.Code
	advice   string
	prefixes []string
}{
	{
		fault.StoreFull,
		"its memory is full: raise maxmemory or use a larger server, then resume: nothing paid is lost",
		[]string{"OOM"},
	},
	{fault.StoreFull, "it cannot write to its disk: make room there, then resume", []string{"MISCONF"}},
	{fault.StoreDenied, "it is a replica: point stores.classes at the primary", []string{"READONLY"}},
	{
		fault.StoreDenied,
		"put the right user and password into stores.classes (redis://user:password@host), " +
			"for example through UNWEAVER_STORES_CLASSES",
		[]string{"NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH", "ERR Client sent AUTH"},
	},
	{fault.StoreDenied, "let this user run the command (ACL), including INFO and EVALSHA", []string{"NOPERM"}},
	{
		fault.BadConfig,
		"the database number in stores.classes does not exist there",
		[]string{"ERR DB index is out of range", "ERR SELECT is not allowed"},
	},
	{
		fault.BadConfig,
		"it is no cluster: use redis:// in stores.classes",
		[]string{"ERR This instance has cluster support disabled"},
	},
	{fault.BadConfig, "it is a cluster: use redis+cluster:// in stores.classes", []string{"MOVED", "CROSSSLOT"}},
}
