// Package s3 is the blob adapter over an S3 bucket through aws-sdk-go-v2. The SDK's own retries are off: reads and
// unconditional writes are repeated here a few times, conditional writes never, since a lost reply may hide a success.
package s3

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/stall"
)

// Config of a store. Credentials come from the AWS default chain.
type Config struct {
	Bucket    string
	Prefix    string // without slashes at its ends; may be empty
	Endpoint  string // empty: AWS
	Region    string
	PathStyle bool
	Setting   string // names the setting in errors: "stores.artifacts"

	Stall time.Duration // ends a request or an answer that moves no byte for so long; 0 = 30 s
}

// longestKey is what S3 allows, in bytes.
const longestKey = 1024

// Parse takes s3://bucket/prefix apart.
func Parse(uri string) (bucket, prefix string, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", "", fault.BadConfig.At("parse", uri).Because("it does not have the form s3://bucket/prefix")
	}
	return u.Host, strings.Trim(u.Path, "/"), nil
}

// Store implements blob.Store.
type Store struct {
	c      *s3.Client
	cfg    Config
	prefix string // with its final slash
}

var (
	_ blob.Store     = (*Store)(nil)
	_ blob.Versioned = (*Store)(nil)
)

// IsVersioned implements blob.Versioned: an object is replaced as a whole, and a stream that breaks goes on in the
// version that it began with, or not at all.
func (s *Store) IsVersioned() bool { return true }

// Open makes a client and proves that the bucket is there and may be read.
func Open(ctx context.Context, c Config) (*Store, error) {
	client := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = 5 * time.Second }).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 128
		})
	acfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(c.Region), config.WithHTTPClient(client),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fault.BadConfig.At("configure S3 for", c.Setting).
			Because(err).
			Advise("check the AWS variables of the environment")
	}
	if c.Stall <= 0 {
		c.Stall = 30 * time.Second
	}
	acfg.HTTPClient = stall.Guard{Send: client.Do, Limit: c.Stall}
	store := &Store{cfg: c}
	if c.Prefix != "" {
		store.prefix = c.Prefix + "/"
	}
	store.c = s3.NewFromConfig(acfg, func(options *s3.Options) {
		if c.Endpoint != "" {
			options.BaseEndpoint = aws.String(c.Endpoint)
		}
		options.UsePathStyle = c.PathStyle
		// Artifacts carry checksums of their own; trailing checksums are unknown to many S3 servers.
		options.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		options.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		options.DisableLogOutputChecksumValidationSkipped = true
	})
	_, err = retryValue(ctx, func(ctx context.Context) (*s3.ListObjectsV2Output, error) {
		out, err := store.c.ListObjectsV2(
			ctx,
			&s3.ListObjectsV2Input{Bucket: &c.Bucket, Prefix: aws.String(store.prefix), MaxKeys: aws.Int32(1)},
		)
		return out, store.wrapError(ctx, "open bucket", "", err)
	})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// retryValue repeats what may be repeated.
func retryValue[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	var out T
	err := retry.Do(ctx, func(ctx context.Context) error {
		var err error
		out, err = f(ctx)
		return err
	})
	return out, err
}

func (s *Store) fullKey(k string) *string { return aws.String(s.prefix + k) }

// Location returns the object's URI.
func (s *Store) Location(key string) string {
	return "s3://" + s.cfg.Bucket + "/" + s.prefix + key
}

// checkReadable refuses a key that some servers of S3 take for a path out of the bucket. A bucket may hold such an
// object: as a document it is one that cannot be read.
func checkReadable(key string) error {
	if err := blob.CheckKey(key); err != nil {
		return fault.Unreadable.At("read", fault.QuoteName(key)).Because(err).Advise("rename the object")
	}
	return nil
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	if err := checkReadable(key); err != nil {
		return nil, blob.Info{}, err
	}
	if r.Length == 0 {
		in, err := s.Stat(ctx, key)
		return io.NopCloser(strings.NewReader("")), in, err
	}
	out, err := s.getObject(ctx, key, r)
	if statusOf(err) == http.StatusRequestedRangeNotSatisfiable { // nothing lies at or after the offset
		info, serr := s.Stat(ctx, key)
		if serr == nil && r.Match != "" && info.ETag != r.Match {
			serr = fault.Precondition.At("read", s.Location(key)).Because("it has changed")
		}
		return io.NopCloser(strings.NewReader("")), info, serr
	}
	if err != nil {
		return nil, blob.Info{}, err
	}
	info := blob.Info{
		Key:      key,
		Size:     aws.ToInt64(out.ContentLength),
		ETag:     aws.ToString(out.ETag),
		Modified: aws.ToTime(out.LastModified),
		Encoding: packingOf(key, aws.ToString(out.ContentEncoding)),
	}
	if r.Offset > 0 || r.Length > 0 { // the length is the part's: the whole's is behind the slash of Content-Range
		if _, total, ok := strings.Cut(aws.ToString(out.ContentRange), "/"); ok {
			_, _ = fmt.Sscan(total, &info.Size) // "*" leaves the part's length
		}
	}
	return &body{
		stream: out.Body, s: s, ctx: ctx, key: key, etag: info.ETag, at: r.Offset, left: aws.ToInt64(out.ContentLength),
	}, info, nil
}

// getObject asks for an object or a part of it, and again where that fails for a moment.
func (s *Store) getObject(ctx context.Context, key string, r blob.Range) (*s3.GetObjectOutput, error) {
	in := &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)}
	switch {
	case r.Length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
	case r.Offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.Offset))
	}
	if r.Match != "" {
		in.IfMatch = aws.String(r.Match)
	}
	return retryValue(ctx, func(ctx context.Context) (*s3.GetObjectOutput, error) {
		out, err := s.c.GetObject(ctx, in)
		return out, s.wrapError(ctx, "read", key, err)
	})
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := checkReadable(key); err != nil {
		return blob.Info{}, err
	}
	out, err := retryValue(ctx, func(ctx context.Context) (*s3.HeadObjectOutput, error) {
		out, err := s.c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)})
		return out, s.wrapError(ctx, "stat", key, err)
	})
	if err != nil {
		return blob.Info{}, err
	}
	return blob.Info{
		Key:      key,
		Size:     aws.ToInt64(out.ContentLength),
		ETag:     aws.ToString(out.ETag),
		Modified: aws.ToTime(out.LastModified),
	}, nil
}

// ListFolders implements blob.Store.
func (s *Store) ListFolders(ctx context.Context) ([]string, error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &s.cfg.Bucket, Prefix: s.fullKey(""), Delimiter: aws.String("/"), EncodingType: types.EncodingTypeUrl,
	}
	var folders []string
	for {
		page, err := retryValue(ctx, func(ctx context.Context) (*s3.ListObjectsV2Output, error) {
			out, err := s.c.ListObjectsV2(ctx, in)
			return out, s.wrapError(ctx, "list folders of", "", err)
		})
		if err != nil {
			return nil, err
		}
		for _, common := range page.CommonPrefixes {
			name := aws.ToString(common.Prefix)
			if page.EncodingType == types.EncodingTypeUrl {
				if plain, err := url.QueryUnescape(name); err == nil {
					name = plain
				}
			}
			folders = append(folders, strings.TrimSuffix(strings.TrimPrefix(name, s.prefix), "/"))
		}
		if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
			return folders, nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return s.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store. Keys travel URL-encoded, as XML cannot carry them all; markers of folders are left
// out. The server knows no end of a range but that of the prefix: the last page may reach behind it.
func (s *Store) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		in := &s3.ListObjectsV2Input{
			Bucket:       &s.cfg.Bucket,
			Prefix:       s.fullKey(prefix),
			EncodingType: types.EncodingTypeUrl,
		}
		if len(*in.Prefix) > longestKey { // no object has such a key
			return
		}
		if after != "" {
			in.StartAfter = s.fullKey(after)
		}
		for {
			page, err := s.pageOf(ctx, in, prefix)
			if err != nil {
				yield(blob.Info{}, err)
				return
			}
			for _, object := range page.Contents {
				info := s.infoOf(page, object)
				if until != "" && info.Key > until {
					return
				}
				if strings.HasSuffix(info.Key, "/") || info.Key == "" {
					continue
				}
				if !yield(info, nil) {
					return
				}
			}
			if !aws.ToBool(page.IsTruncated) || aws.ToString(page.NextContinuationToken) == "" {
				return
			}
			in.ContinuationToken, in.StartAfter = page.NextContinuationToken, nil
		}
	}
}

// pageOf asks for a page of a listing. Where it has archived objects it is asked for again with what says which of
// these are restored, as all that follow are: servers that know no archives need not know that.
func (s *Store) pageOf(ctx context.Context, in *s3.ListObjectsV2Input, prefix string) (*s3.ListObjectsV2Output, error) {
	ask := func(in *s3.ListObjectsV2Input) (*s3.ListObjectsV2Output, error) {
		return retryValue(ctx, func(ctx context.Context) (*s3.ListObjectsV2Output, error) {
			out, err := s.c.ListObjectsV2(ctx, in)
			return out, s.wrapError(ctx, "list", prefix, err)
		})
	}
	page, err := ask(in)
	archived := func(object types.Object) bool { return archiveClass(object) != "" }
	if err != nil || len(in.OptionalObjectAttributes) > 0 || !slices.ContainsFunc(page.Contents, archived) {
		return page, err
	}
	restored := *in
	restored.OptionalObjectAttributes = []types.OptionalObjectAttributes{types.OptionalObjectAttributesRestoreStatus}
	if again, err := ask(&restored); err == nil {
		page, in.OptionalObjectAttributes = again, restored.OptionalObjectAttributes
	}
	return page, nil
}

// infoOf returns an object of a listing.
func (s *Store) infoOf(page *s3.ListObjectsV2Output, object types.Object) blob.Info {
	key := aws.ToString(object.Key)
	if page.EncodingType == types.EncodingTypeUrl {
		if plain, err := url.QueryUnescape(key); err == nil {
			key = plain
		}
	}
	return blob.Info{
		Key:      strings.TrimPrefix(key, s.prefix),
		Size:     aws.ToInt64(object.Size),
		ETag:     aws.ToString(object.ETag),
		Modified: aws.ToTime(object.LastModified),
		Archived: archiveClass(object),
	}
}

// archiveClass returns the storage class of an object that must be restored before it can be read; empty for others.
func archiveClass(object types.Object) string {
	if restored := object.RestoreStatus; restored != nil && restored.RestoreExpiryDate != nil {
		return ""
	}
	switch object.StorageClass {
	case types.ObjectStorageClassGlacier, types.ObjectStorageClassDeepArchive:
		return string(object.StorageClass)
	}
	return ""
}

// packingOf returns how an object is packed by its Content-Encoding. That of a key which says the same itself packs it
// once.
func packingOf(key, encoding string) string {
	if strings.HasSuffix(strings.ToLower(key), ".gz") {
		return ""
	}
	for _, one := range strings.Split(strings.ToLower(encoding), ",") {
		if name := strings.TrimSpace(one); name == "gzip" || name == "x-gzip" {
			return blob.Gzip
		}
	}
	return ""
}
