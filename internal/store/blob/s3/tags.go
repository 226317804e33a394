package s3

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/unweaver/unweaver/internal/fault"
)

// ReadTags implements blob.Tagged. It leaves out tags without a value, and those of the store itself, whose names begin
// with "aws:".
func (s *Store) ReadTags(ctx context.Context, key string) (map[string]string, error) {
	if err := checkReadable(key); err != nil {
		return nil, err
	}
	out, err := retryValue(ctx, func(ctx context.Context) (*s3.GetObjectTaggingOutput, error) {
		out, err := s.c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)})
		if strings.HasPrefix(codeOf(err), "NoSuchTagSet") { // what some servers say of an object without tags
			return &s3.GetObjectTaggingOutput{}, nil
		}
		return out, s.wrapError(ctx, "read tags of", key, err)
	})
	if fault.Is(err, fault.StoreDenied) {
		denied := *fault.As(err)
		return nil, denied.Advise("let these credentials use s3:GetObjectTagging, or set documents.s3_tags: false")
	}
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, tag := range out.TagSet {
		if name, value := aws.ToString(tag.Key), aws.ToString(tag.Value); value != "" && !strings.HasPrefix(name, "aws:") {
			tags[name] = value
		}
	}
	return tags, nil
}
