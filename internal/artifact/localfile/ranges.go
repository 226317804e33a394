package localfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// rangeBytes is what one request of a large download asks for.
	rangeBytes = 8 << 20
	// rangedFrom is the size from which a file comes in ranges.
	rangedFrom = 2 * rangeBytes
	// rangeWidth is how many ranges of a file come at once.
	rangeWidth = 8
)

// bringRanges brings an object of a size by several requests at once. What breaks off is asked for again, a few times,
// and nothing else with it.
func bringRanges(ctx context.Context, store blob.Store, key string, size int64, file *os.File) error {
	count := int((size + rangeBytes - 1) / rangeBytes)
	return parallel.Each(ctx, count, rangeWidth, func(ctx context.Context, i int) error {
		offset := int64(i) * rangeBytes
		part := blob.Range{Offset: offset, Length: min(rangeBytes, size-offset)}
		return retry.Do(ctx, func(ctx context.Context) error {
			body, _, err := store.Get(ctx, key, part)
			if err != nil {
				return err
			}
			return errors.Join(bringBody(ctx, store, key, body, part, file), body.Close())
		})
	})
}

// bringBody writes a part of an object to its place in a file. A part without a length ends with the object.
func bringBody(
	ctx context.Context, store blob.Store, key string, body io.Reader, part blob.Range, file *os.File,
) error {
	source := &remote{reader: body}
	n, err := io.Copy(io.NewOffsetWriter(file, part.Offset), source)
	switch {
	case err != nil && source.err == nil:
		return localFault("write cache", filepath.Dir(file.Name()), err)
	case err == nil && n < part.Length:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return downloadFault(ctx, store, key, err)
	}
	return nil
}
