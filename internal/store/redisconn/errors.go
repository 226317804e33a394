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
		"raise maxmemory or use a larger server, then resume the run; paid results are kept",
		[]string{"OOM"},
	},
	{fault.StoreFull, "free disk space on the Redis server, then resume the run", []string{"MISCONF"}},
	{fault.StoreDenied, "point stores.classes at the primary: this server is a replica", []string{"READONLY"}},
	{
		fault.StoreDenied,
		"set the correct user and password in stores.classes (redis://user:password@host), " +
			"for example through UNWEAVER_STORES_CLASSES",
		[]string{"NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH", "ERR Client sent AUTH"},
	},
	{fault.StoreDenied, "allow this user to run the command (ACL), including INFO, EVAL and EVALSHA", []string{"NOPERM"}},
	{
		fault.BadConfig,
		"correct the database number in stores.classes: the server does not have it",
		[]string{"ERR DB index is out of range", "ERR SELECT is not allowed"},
	},
	{
		fault.BadConfig,
		"use redis:// in stores.classes: the server is not a cluster",
		[]string{"ERR This instance has cluster support disabled"},
	},
	{fault.BadConfig, "use redis+cluster:// in stores.classes: the server is a cluster", []string{"MOVED", "CROSSSLOT"}},
}
