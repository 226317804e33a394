package s3

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// perDelete is how many keys S3 takes in one request.
const perDelete = 1000

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	_, err := retryValue(ctx, func(ctx context.Context) (*s3.DeleteObjectOutput, error) {
		out, err := s.c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)})
		return out, s.wrapError(ctx, "delete", key, err)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// DeleteAll implements blob.Store. A store that knows no deletion of many, or refuses it as a whole, is asked key by
// key.
func (s *Store) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := blob.CheckKey(key); err != nil {
			return err
		}
	}
	var failures blob.Failures
	for part := range slices.Chunk(keys, perDelete) {
		out, err := retryValue(ctx, func(ctx context.Context) (*s3.DeleteObjectsOutput, error) {
			objects := make([]types.ObjectIdentifier, len(part))
			for i, key := range part {
				objects[i].Key = s.fullKey(key)
			}
			out, err := s.c.DeleteObjects(ctx, &s3.DeleteObjectsInput{
				Bucket: &s.cfg.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
			})
			if oneByOne(err) {
				return nil, err
			}
			return out, s.wrapError(ctx, "delete", part[0], err)
		})
		switch {
		case oneByOne(err):
			if err := s.deleteEach(ctx, part, &failures); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			for _, refused := range out.Errors {
				failures.Add(s.toDeleteFault(ctx, refused))
			}
		}
	}
	return failures.Err(len(keys))
}

// deleteWidth is how many objects are deleted at once where each takes a request of its own.
const deleteWidth = 8

// deleteEach deletes one object, and once that has shown that it is allowed, of the rest several at once.
func (s *Store) deleteEach(ctx context.Context, keys []string, failures *blob.Failures) error {
	if err := blob.CheckContext(ctx); err != nil {
		return err
	}
	err := s.Delete(ctx, keys[0])
	if fault.Is(err, fault.StoreDenied) {
		return err
	}
	failures.Add(err)
	var mu sync.Mutex
	return parallel.Each(ctx, len(keys)-1, deleteWidth, func(ctx context.Context, i int) error {
		if err := blob.CheckContext(ctx); err != nil {
			return err
		}
		err := s.Delete(ctx, keys[i+1])
		mu.Lock()
		defer mu.Unlock()
		failures.Add(err)
		return nil
	})
}

// oneByOne says that the store has no deletion of many objects, requires a checksum that is out of use, or refuses it:
// for many objects some servers (SeaweedFS) ask for the right to the bucket, and for one that to its prefix is enough.
func oneByOne(err error) bool {
	switch codeOf(err) {
	case "AccessDenied":
		return true
	case "MissingContentMD5", "NotImplemented", "MethodNotAllowed":
		return true
	}
	st := statusOf(err)
	return st == http.StatusNotImplemented || st == http.StatusMethodNotAllowed
}

// toDeleteFault returns the fault of one of many objects that was not deleted.
func (s *Store) toDeleteFault(ctx context.Context, refused types.Error) error {
	key := aws.ToString(refused.Key)
	if len(key) >= len(s.prefix) {
		key = key[len(s.prefix):]
	}
	err := s.wrapError(ctx, "delete", key, &smithy.GenericAPIError{
		Code: aws.ToString(refused.Code), Message: aws.ToString(refused.Message),
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
