package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// partBytes is the size of a part, and of the largest object written in one request. S3 allows 10,000 parts: parts grow
// with their number, so that 5 TiB fit.
const (
	partBytes = 8 << 20
	maxPart   = 1 << 30
)

var buffers = sync.Pool{New: func() any { b := make([]byte, partBytes); return &b }}

// Put implements blob.Store. It holds one part in memory.
func (s *Store) Put(
	ctx context.Context,
	key string,
	reader io.Reader,
	size int64,
	cond blob.Cond,
) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	reader = whole{reader}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(reader, *buf)
	last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && !last {
		return blob.Info{}, s.newBodyFault(key, err)
	}
	if n == len(*buf) && size == int64(n) {
		last = true
	}
	if !last {
		return s.putMultipart(ctx, key, reader, *buf, size, cond)
	}
	if size >= 0 && int64(n) != size {
		return blob.Info{}, s.newBodyFault(key, fmt.Errorf("got %d of %d bytes", n, size))
	}
	in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key), ContentLength: aws.Int64(int64(n))}
	in.IfNoneMatch, in.IfMatch = conditionsOf(cond)
	var out *s3.PutObjectOutput
	err = s.writeConditionally(ctx, cond, func(ctx context.Context) error {
		in.Body = bytes.NewReader((*buf)[:n])
		var err error
		out, err = s.c.PutObject(ctx, in)
		return s.wrapWrite(ctx, key, cond, err)
	})
	if err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Key: key, Size: int64(n), ETag: aws.ToString(out.ETag), Modified: time.Now()}, nil
}

// whole is a body whose breaking off is not taken for its end, which io.ReadFull reports by the same error.
type whole struct{ io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("it broke off: %v", err) //nolint:errorlint // as above
	}
	return n, err
}

// newBodyFault returns the failure of a body.
func (s *Store) newBodyFault(key string, err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fault.StoreDown.At("read the body of", s.Location(key)).Because(err)
}

func conditionsOf(cond blob.Cond) (none, match *string) {
	if cond.Absent {
		none = aws.String("*")
	}
	if cond.Match != "" {
		match = aws.String(cond.Match)
	}
	return none, match
}

// writeConditionally repeats a write without a condition; one with a condition is sent once, except where S3 itself
// says that it did nothing because another request was in its way (409).
func (s *Store) writeConditionally(ctx context.Context, c blob.Cond, f func(context.Context) error) error {
	if c == (blob.Cond{}) {
		return retry.Do(ctx, f)
	}
	for i := 0; ; i++ {
		err := f(ctx)
		if i == 20 || !isConflict(err) {
			return err
		}
		if err := retry.Wait(ctx, time.Duration(20+10*i)*time.Millisecond); err != nil {
			return err
		}
	}
}

// putMultipart writes a body part by part; first is full. The object appears, under its condition, when all parts are
// there.
func (s *Store) putMultipart(
	ctx context.Context,
	key string,
	reader io.Reader,
	buf []byte,
	size int64,
	cond blob.Cond,
) (info blob.Info, err error) {
	if cond.Absent { // spare the parts where the object is there already
		if _, err := s.Stat(ctx, key); err == nil {
			return info, fault.Precondition.At("write", s.Location(key)).Because("it exists")
		}
	}
	up, err := retryValue(ctx, func(ctx context.Context) (*s3.CreateMultipartUploadOutput, error) {
		out, err := s.c.CreateMultipartUpload(
			ctx,
			&s3.CreateMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key)},
		)
		return out, s.wrapError(ctx, "write", key, err)
	})
	if err != nil {
		return info, err
	}
	defer func() {
		if err != nil { // parts of an upload that was given up are paid for until it is aborted
			actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			_, aerr := s.c.AbortMultipartUpload(
				actx,
				&s3.AbortMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: s.fullKey(key), UploadId: up.UploadId},
			)
			if aerr != nil && fault.As(err) == nil {
				err = errors.Join(err, aerr)
			}
		}
	}()
	parts, total, err := s.putParts(ctx, key, up.UploadId, reader, buf)
	if err != nil {
		return info, err
	}
	if size >= 0 && total != size {
		return info, s.newBodyFault(key, fmt.Errorf("got %d of %d bytes", total, size))
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket:          &s.cfg.Bucket,
		Key:             s.fullKey(key),
		UploadId:        up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	in.IfNoneMatch, in.IfMatch = conditionsOf(cond)
	var out *s3.CompleteMultipartUploadOutput
	// Completing is never repeated: a reply that was lost leaves an upload that is unknown, and the caller writes
	// again.
	if err = s.writeConditionally(ctx, blob.Cond{Match: "once"}, func(ctx context.Context) error {
		var err error
		out, err = s.c.CompleteMultipartUpload(ctx, in)
		return s.wrapWrite(ctx, key, cond, err)
	}); err != nil {
		return info, err
	}
	return blob.Info{Key: key, Size: total, ETag: aws.ToString(out.ETag), Modified: time.Now()}, nil
}

func (s *Store) putParts(
	ctx context.Context,
	key string,
	upload *string,
	reader io.Reader,
	buf []byte,
) ([]types.CompletedPart, int64, error) {
	var done []types.CompletedPart
	var total int64
	for n, end := len(buf), false; n > 0; {
		num := aws.Int32(int32(len(done) + 1))
		out, err := retryValue(ctx, func(ctx context.Context) (*s3.UploadPartOutput, error) {
			out, err := s.c.UploadPart(
				ctx,
				&s3.UploadPartInput{
					Bucket: &s.cfg.Bucket, Key: s.fullKey(key), UploadId: upload, PartNumber: num,
					Body: bytes.NewReader(buf[:n]), ContentLength: aws.Int64(int64(n)),
				},
			)
			return out, s.wrapError(ctx, "write", key, err)
		})
		if err != nil {
			return nil, 0, err
		}
		done = append(done, types.CompletedPart{ETag: out.ETag, PartNumber: num})
		total += int64(n)
		if end {
			break
		}
		if len(done)%1000 == 0 && len(buf) < maxPart {
			buf = make([]byte, 2*len(buf))
		}
		n, err = io.ReadFull(reader, buf)
		end = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return nil, 0, s.newBodyFault(key, err)
		}
	}
	return done, total, nil
}
