package s3

import (
	"context"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

var _ blob.Copier = (*Store)(nil)

// CopyFrom implements blob.Copier for another bucket, or prefix, of the same server. Whatever keeps the server from it
// (rights that a copy needs and a write does not, an object over 5 GB, a server that has no copies or takes minutes for
// one) is no error: the caller has another way, which says what is wrong if that fails too. So it is tried once.
func (s *Store) CopyFrom(ctx context.Context, key string, from blob.Store, source string) (bool, error) {
	other, ok := core.FindBelow[*Store](from)
	if !ok || other.cfg.Endpoint != s.cfg.Endpoint || other.cfg.Region != s.cfg.Region {
		return false, nil
	}
	if err := blob.CheckKey(key); err != nil {
		return false, err
	}
	if err := checkReadable(source); err != nil {
		return false, err
	}
	_, err := s.c.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: &s.cfg.Bucket, Key: s.fullKey(key), CopySource: aws.String(copySource(other.cfg.Bucket, other.prefix+source)),
	})
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if codeOf(err) == "NoSuchKey" {
		return false, fault.NotFound.At("copy", other.Location(source)).Because(reasonOf(err))
	}
	return err == nil, nil
}

// copySource names an object as the header of a copy does: escaped, but for its slashes.
func copySource(bucket, key string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(bucket + "/" + key))
}
