package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// statusOf returns the HTTP status in an error's chain, or 0.
func statusOf(err error) int {
	if re, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return re.HTTPStatusCode()
	}
	return 0
}

func codeOf(err error) string {
	if ae, ok := errors.AsType[smithy.APIError](err); ok {
		return ae.ErrorCode()
	}
	return ""
}

func isConflict(err error) bool {
	return statusOf(err) == http.StatusConflict && codeOf(err) != "BucketAlreadyExists"
}

// wrapWrite wraps the error of a write under a condition.
func (s *Store) wrapWrite(ctx context.Context, key string, cond blob.Cond, err error) error {
	st := statusOf(err)
	switch {
	case err == nil || cond == (blob.Cond{}):
	case st == http.StatusPreconditionFailed,
		st == http.StatusNotFound && cond.Match != "" && codeOf(err) != "NoSuchBucket":
		why := "it has changed"
		if cond.Absent {
			why = "it exists"
		}
		return fault.Precondition.At("write", s.Location(key)).Because(why)
	case st == http.StatusNotImplemented, codeOf(err) == "NotImplemented":
		return fault.StoreDenied.At("write", s.Location(key)).
			Because(err).
			Advise("the store does not support conditional writes, which UnWeaver requires: " +
				"use a store that does (AWS S3, SeaweedFS 4.16 or later, versitygw)")
	}
	return s.wrapError(ctx, "write", key, err)
}

// wrapError makes a fault of an SDK error: what failed, on which object, why, and which setting to mend.
func (s *Store) wrapError(ctx context.Context, op, key string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	object := s.Location(key)
	refuse := func(code fault.Code, hint string) error {
		return code.At(op, object).Because(reasonOf(err)).Advise(hint)
	}
	denied := func(hint string) error { return refuse(fault.StoreDenied, hint) }
	elsewhere := "the bucket lies in another region than " + s.cfg.Region + ": set stores.s3.region"
	const full = "make room in the store, then resume: nothing paid is lost"
	switch codeOf(err) {
	case "NoSuchBucket":
		return denied(
			"bucket " + s.cfg.Bucket + " does not exist: create it, or correct " + s.cfg.Setting + " and stores.s3.endpoint",
		)
	case "InvalidObjectState":
		return blob.ArchivedObject(object, archiveOf(err))
	case "NoSuchKey", "NotFound", "NoSuchUpload":
		return fault.NotFound.At(op, object).Because(reasonOf(err))
	case "RequestTimeTooSkewed":
		return denied("synchronise the clock of this machine with NTP: it differs from the store's clock")
	case "InvalidAccessKeyId",
		"SignatureDoesNotMatch",
		"ExpiredToken",
		"InvalidToken",
		"InvalidClientTokenId",
		"InvalidSecurity":
		return denied(
			"the store rejects the credentials: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
				"the profile or the role of this process",
		)
	case "AuthorizationHeaderMalformed",
		"PermanentRedirect",
		"IllegalLocationConstraintException",
		"IncorrectEndpoint":
		return refuse(fault.BadConfig, elsewhere)
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return denied("let these credentials list, read, write and delete below " + s.cfg.Setting)
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage":
		return refuse(fault.StoreFull, full)
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		return fault.NotFound.At(op, object).Because(reasonOf(err))
	case http.StatusPreconditionFailed:
		return fault.Precondition.At(op, object).Because("it has changed")
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return refuse(fault.BadConfig, elsewhere)
	case http.StatusForbidden, http.StatusUnauthorized:
		return denied("let these credentials list, read, write and delete below " + s.cfg.Setting)
	case http.StatusInsufficientStorage:
		return refuse(fault.StoreFull, full)
	case http.StatusBadRequest, http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return denied("check stores.s3.endpoint, region and path_style: the store rejects the request")
	}
	var noCreds interface{ CredentialsError() bool }
	if errors.As(err, &noCreds) || isSigning(err) {
		return denied(
			"no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role",
		)
	}
	return fault.StoreDown.At(op, object).
		Because(cause{reasonOf(err), err}).
		Advise("check stores.s3.endpoint and the network")
}

// archiveOf returns the archive that an object lies in, as the refusal to read it says; empty where it does not.
func archiveOf(err error) string {
	var state *types.InvalidObjectState
	if !errors.As(err, &state) {
		return ""
	}
	return cmp.Or(string(state.StorageClass), string(state.AccessTier))
}

func isSigning(err error) bool {
	var se interface{ Unwrap() error }
	for e := err; errors.As(e, &se); e = se.Unwrap() {
		if fmt.Sprintf("%T", se) == "*v4.SigningError" {
			return true
		}
	}
	return false
}

// reasonOf leaves out what the SDK says around a cause: request ids and the name of the operation.
func reasonOf(err error) string {
	if ae, ok := errors.AsType[smithy.APIError](err); ok && ae.ErrorCode() != "" {
		if ae.ErrorMessage() == "" {
			return ae.ErrorCode()
		}
		return ae.ErrorCode() + ": " + ae.ErrorMessage()
	}
	if oe, ok := errors.AsType[*smithy.OperationError](err); ok {
		return oe.Err.Error()
	}
	return err.Error()
}

// cause prints the short reason and keeps the chain.
type cause struct {
	text string
	err  error
}

func (c cause) Error() string { return c.text }
func (c cause) Unwrap() error { return c.err }
