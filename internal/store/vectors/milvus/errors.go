package milvus

import (
	"context"
	"errors"
	"strings"

	"github.com/milvus-io/milvus-proto/go-api/v2/commonpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/unweaver/unweaver/internal/fault"
)

// statusError is a failed status of a reply. Servers of 2.2 set ErrorCode, those since 2.3 Code too, some only Code.
type statusError struct{ st *commonpb.Status }

func (e *statusError) Error() string {
	if r := e.st.GetReason(); r != "" {
		return r
	}
	return e.oldCode().String()
}

func (e *statusError) oldCode() commonpb.ErrorCode {
	return e.st.GetErrorCode() //nolint:staticcheck // old servers set it alone
}

// Codes of Milvus 2.3 and later.
const (
	codeRate      = 8
	codeMemory    = 3
	codeDisk      = 11
	codeQuota     = 9
	codeNotFound  = 100
	codeNotLoaded = 101
	codeNotFully  = 103
	codeNoIndex   = 700
)

func (e *statusError) mentionsAny(parts ...string) bool {
	r := strings.ToLower(e.st.GetReason())
	for _, p := range parts {
		if strings.Contains(r, p) {
			return true
		}
	}
	return false
}

func (e *statusError) notFound() bool {
	return e.st.GetCode() == codeNotFound || e.oldCode() == commonpb.ErrorCode_CollectionNotExists ||
		e.oldCode() == commonpb.ErrorCode_CollectionNameNotFound ||
		e.mentionsAny("can't find collection", "collection not found")
}

func (e *statusError) notLoaded() bool {
	c := e.st.GetCode()
	return c == codeNotLoaded || c == codeNotFully ||
		e.mentionsAny("collection not loaded", "not been loaded", "has not been loaded", "not fully loaded")
}

func (e *statusError) noIndex() bool {
	return e.st.GetCode() == codeNoIndex || e.oldCode() == commonpb.ErrorCode_IndexNotExist ||
		e.mentionsAny("index not found", "index doesn't exist")
}

func (e *statusError) isRateLimit() bool {
	return e.oldCode() == commonpb.ErrorCode_RateLimit || e.st.GetCode() == codeRate || e.mentionsAny("rate limit")
}

func (e *statusError) isFull() bool {
	switch e.oldCode() {
	case commonpb.ErrorCode_MemoryQuotaExhausted, commonpb.ErrorCode_DiskQuotaExhausted,
		commonpb.ErrorCode_InsufficientMemoryToLoad, commonpb.ErrorCode_OutOfMemory:
		return true
	}
	c := e.st.GetCode()
	return c == codeMemory || c == codeDisk || c == codeQuota ||
		e.mentionsAny("quota exceeded", "quota exhausted", "insufficient memory", "no space left")
}

func (e *statusError) isAuth() bool {
	return e.oldCode() == commonpb.ErrorCode_PermissionDenied ||
		e.mentionsAny("auth check failure", "permission deny", "privilege not permitted")
}

// wrapError makes a fault: which collection, why, and which setting or state of the server is to be mended.
func (s *Store) wrapError(ctx context.Context, op, object string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	denied := func() error {
		return fault.StoreDenied.At(op, object).
			Because(err).
			Advise("set the correct user and password in stores.vectors (milvus://user:password@host), " +
				"for example through UNWEAVER_STORES_VECTORS")
	}
	if se, ok := errors.AsType[*statusError](err); ok {
		switch {
		case se.notFound():
			return fault.NotFound.At(op, object).
				Because("the collection does not exist").
				Advise("rebuild it with: unweaver restore --all")
		case se.isFull():
			return fault.StoreFull.At(op, object).
				Because(err).
				Advise("give Milvus more memory or disk space, then resume the run; paid results are kept")
		case se.isAuth():
			return denied()
		case se.mentionsAny("database not found", "database not exist"):
			return fault.BadConfig.At(op, object).
				Because(err).
				Advise("create that database in Milvus, or correct stores.vectors")
		}
		return fault.StoreDown.At(op, object).Because(err).Advise("see Milvus's log")
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return denied()
	case codes.ResourceExhausted:
		return fault.Internal.At(op, object).
			Because(err).
			Advise("a message exceeds the limit of Milvus: raise proxy.grpc.serverMaxRecvSize there")
	}
	return fault.StoreDown.At(op, object).Because(err).Advise("check stores.vectors and that Milvus runs")
}
