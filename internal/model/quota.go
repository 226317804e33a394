package model

import (
	"context"
	"time"
)

// Quota is what a server says is left of what it grants its caller. The zero value says nothing.
type Quota struct {
	Requests Left
	Tokens   Left
}

// Left of one thing that is granted; Reset is after how long all of it is there again, 0 where that was not said.
type Left struct {
	Known bool
	Count int64
	Reset time.Duration
}

type quotaTold struct{}

// OnQuota has report called with what each answer to a request says of the caller's quota, also where it says nothing.
// It may be called concurrently.
func OnQuota(ctx context.Context, report func(Quota)) context.Context {
	return context.WithValue(ctx, quotaTold{}, report)
}

// TellQuota passes what an answer says on; adapters call it once a response.
func TellQuota(ctx context.Context, quota Quota) {
	if report, ok := ctx.Value(quotaTold{}).(func(Quota)); ok {
		report(quota)
	}
}
