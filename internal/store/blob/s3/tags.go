package s3

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// ReadTags implements blob.Tagged. It leaves out tags of the store itself, whose names begin with "aws:".
func (s *Store) ReadTags(ctx context.Context, key string) (map[string]string, error) {
	if err := checkReadable(key); err != nil {
		return nil, err
	}
	out, err := retryValue(ctx, func(ctx context.Context) (*s3.GetObjectTaggingOutput, error) {
		out, err := s.c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)})
		if strings.HasPrefix(codeOf(err), "NoSuchTagSet") { // what some servers say of an object without tags
			return &s3.GetObjectTaggingOutput{}, nil
		}
		if refusesTags(err) {
			return nil, fault.StoreDenied.At("read tags of", s.Location(key)).
				Because(cause{reasonOf(err), blob.ErrTagsRefused}).
				Advise("let these credentials use s3:GetObjectTagging, or set documents.s3_tags: false")
		}
		return out, s.wrapError(ctx, "read tags of", key, err)
	})
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, tag := range out.TagSet {
		if name, value := aws.ToString(tag.Key), aws.ToString(tag.Value); !strings.HasPrefix(name, "aws:") {
			tags[name] = value
		}
	}
	return tags, nil
}

// refusesTags reports whether a store refuses tags alone. A status without a code of the store has the SDK's.
func refusesTags(err error) bool {
	switch statusOf(err) {
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return true
	case http.StatusForbidden:
		return slices.Contains([]string{"AccessDenied", "Forbidden", "UnknownError", ""}, codeOf(err))
	}
	return false
}
