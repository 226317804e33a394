package milvus

import (
	"context"
	"fmt"
	"path"
	"time"

	grpc_retry "github.com/grpc-ecosystem/go-grpc-middleware/retry"
	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callTimeout bounds one call, however long its caller could wait: a server that took the call and is silent must not
// hold an activity until its own deadline. What takes long by nature is asked for and then polled.
const callTimeout = time.Minute

// longFactor is how many times longer calls may take that wait for the disk or for other nodes.
const longFactor = 10

var longRunning = map[string]bool{
	"Import": true, "Flush": true, "LoadCollection": true, "CreateIndex": true,
	"CreateCollection": true, "DropCollection": true,
}

// newGuard gives every call a deadline, turns every failed status into an error, and keeps the SDK from repeating
// calls.
func newGuard(timeout time.Duration) grpc.UnaryClientInterceptor {
	if timeout <= 0 {
		timeout = callTimeout
	}
	return func(
		ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		limit := timeout
		if longRunning[path.Base(method)] {
			limit *= longFactor
		}
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := invoke(bounded, method, req, reply, conn, append(opts, grpc_retry.Disable())...); err != nil {
			late := status.Code(err) == codes.DeadlineExceeded
			if own, ok := bounded.Deadline(); late && ok {
				// A connection may notice the caller's deadline before its context does.
				if callers, bound := ctx.Deadline(); bound && !callers.After(own) {
					return context.DeadlineExceeded
				}
			}
			if late && ctx.Err() == nil {
				return fmt.Errorf("it did not answer %s within %s: %w", path.Base(method), limit, err)
			}
			return err
		}
		return errorOfReply(reply)
	}
}

// errorOfReply returns the error that a reply carries as its status, or nil.
func errorOfReply(reply any) error {
	st, ok := reply.(*commonpb.Status)
	if r, has := reply.(interface{ GetStatus() *commonpb.Status }); has {
		st, ok = r.GetStatus(), true
	}
	if !ok || st == nil {
		return nil
	}
	se := &statusError{st}
	if se.oldCode() == commonpb.ErrorCode_Success && st.GetCode() == 0 {
		return nil
	}
	return se
}
