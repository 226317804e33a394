package s3

import (
	"context"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// perDelete is how many keys S3 takes in one request.
const perDelete = 1000

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	_, err := retried(ctx, func(ctx context.Context) (*s3.DeleteObjectOutput, error) {
		out, err := s.c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.cfg.Bucket, Key: s.key(key)})
		return out, s.wrap(ctx, "delete", key, err)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// DeleteAll implements blob.Store. A store that knows no deletion of many is asked key by key.
func (s *Store) DeleteAll(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := blob.CheckKey(key); err != nil {
			return err
		}
	}
	var failures blob.Failures
	for part := range slices.Chunk(keys, perDelete) {
		out, err := retried(ctx, func(ctx context.Context) (*s3.DeleteObjectsOutput, error) {
			objects := make([]types.ObjectIdentifier, len(part))
			for i, key := range part {
				objects[i].Key = s.key(key)
			}
			out, err := s.c.DeleteObjects(ctx, &s3.DeleteObjectsInput{
				Bucket: &s.cfg.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
			})
			if unknownRequest(err) {
				return nil, err
			}
			return out, s.wrap(ctx, "delete", part[0], err)
		})
		switch {
		case unknownRequest(err):
			for _, key := range part {
				if err := blob.Permitted(ctx); err != nil {
					return err
				}
				failures.Add(s.Delete(ctx, key))
			}
		case err != nil:
			return err
		default:
			for _, refused := range out.Errors {
				failures.Add(s.refused(ctx, refused))
			}
		}
	}
	return failures.Err(len(keys))
}

// unknownRequest tells that the store has no deletion of many objects, or wants a checksum that is out of use.
func unknownRequest(err error) bool {
	switch code(err) {
	case "MissingContentMD5", "NotImplemented", "MethodNotAllowed":
		return true
	}
	st := status(err)
	return st == http.StatusNotImplemented || st == http.StatusMethodNotAllowed
}

// refused is why one of many objects stayed.
func (s *Store) refused(ctx context.Context, refused types.Error) error {
	key := aws.ToString(refused.Key)
	if len(key) >= len(s.prefix) {
		key = key[len(s.prefix):]
	}
	err := s.wrap(ctx, "delete", key, &smithy.GenericAPIError{
		Code: aws.ToString(refused.Code), Message: aws.ToString(refused.Message),
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
