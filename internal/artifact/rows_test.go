package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

const rowCount = 3000

// rowKey returns an even-numbered key, so that the odd numbers are keys that a file does not have.
func rowKey(i int) string   { return fmt.Sprintf("k%06d", 2*i) }
func rowValue(i int) string { return fmt.Sprint("value ", i, strings.Repeat(" pad", 20)) }

func rowFile(t *testing.T, store blob.Store, key string) *artifact.Reader {
	rows := musttest.Get(artifact.NewRows())(t)
	defer rows.Discard()
	for i := range rowCount {
		rows.Append(rowKey(i), []byte(rowValue(i)))
	}
	require.NoError(t, rows.StoreScratch(t.Context(), store, key))
	info := musttest.Get(store.Stat(t.Context(), key))(t)
	reader := musttest.Get(artifact.OpenRowsOf(t.Context(), store, key, info.Size))(t)
	require.True(t, len(reader.Frames) >= 4 && reader.Rows == rowCount, "%d, %d", len(reader.Frames), reader.Rows)
	return reader
}

func TestEveryRowIsFoundByItsKeyAndNoOtherIs(t *testing.T) {
	reader := rowFile(t, artifacttest.New(), "f")
	for i := 0; i < rowCount; i += 97 {
		v, err := reader.Get(t.Context(), rowKey(i))
		assert.True(t, err == nil && string(v) == rowValue(i), "row %d: %q %v", i, v, err)
		v, err = reader.Get(t.Context(), fmt.Sprintf("k%06d", 2*i+1))
		assert.True(t, err == nil && v == nil, "a key between rows: %q %v", v, err)
	}
	for _, outside := range []string{"", "a", "k999999"} {
		v, err := reader.Get(t.Context(), outside)
		assert.True(t, err == nil && v == nil, "%q: %q %v", outside, v, err)
	}
}

func TestScanGivesTheRowsOfItsFramesInOneRequest(t *testing.T) {
	store := artifacttest.New()
	reader := rowFile(t, store, "f")
	last := len(reader.Frames)
	for situation, c := range map[string]struct{ lo, hi, from, to int }{
		"all": {0, -1, 0, last}, "beyond the end": {0, last + 9, 0, last}, "the middle": {1, 3, 1, 3},
		"the last": {last - 1, -1, last - 1, last}, "none": {2, 2, 2, 2},
	} {
		first, want := 0, 0
		for i, frame := range reader.Frames {
			if i < c.from {
				first += int(frame.Rows)
			}
			if i >= c.from && i < c.to {
				want += int(frame.Rows)
			}
		}
		store.Reset()
		seen := 0
		for row := range musttest.All(t, reader.Scan(t.Context(), c.lo, c.hi)) {
			require.True(t, string(row.Key) == rowKey(first+seen) && string(row.Value) == rowValue(first+seen) &&
				row.Frame >= c.from, "%s: row %d is %s of frame %d", situation, seen, row.Key, row.Frame)
			seen++
		}
		assert.True(t, seen == want && store.Calls(artifacttest.Get) == min(1, want),
			"%s: %d rows in %d requests, want %d", situation, seen, store.Calls(artifacttest.Get), want)
	}
}

// Whatever byte of a frame is damaged, a reader gets an error that names the object, never other or fewer rows.
func TestADamagedFrameIsAnErrorThatNamesItsObject(t *testing.T) {
	store := artifacttest.New()
	reader := rowFile(t, store, "f")
	for _, frame := range []int{0, 2, len(reader.Frames) - 1} {
		at := reader.Frames[frame].Offset + int64(reader.Frames[frame].Size)/2
		flip := func(raw []byte) []byte { raw[at] ^= 1; return raw }
		store.Change("f", flip)
		rows, err := 0, error(nil)
		for _, rowErr := range artifact.ScanAll(t.Context(), store, "f") {
			if err = rowErr; err == nil {
				rows++
			}
		}
		assert.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), "memory:f") && rows != rowCount,
			"frame %d: %d rows, %v", frame, rows, err)
		_, err = reader.Get(t.Context(), reader.Frames[frame].First)
		assert.True(t, fault.Is(err, fault.SegmentDamage), "frame %d by key: %v", frame, err)
		store.Change("f", flip)
	}
	seen := 0
	for range musttest.All(t, artifact.ScanAll(t.Context(), store, "f")) {
		if seen++; seen == 10 { // a reader may stop early
			break
		}
	}
	assert.Equal(t, 10, seen)
}

// A connection that ends in the middle of a frame heals by itself: it must not be reported as damage.
func TestABodyThatEndsEarlyIsTheStoresFaultNotTheSegments(t *testing.T) {
	store := artifacttest.New()
	rowFile(t, store, "f")
	reader, err := artifact.OpenRows(t.Context(), short{store}, "f")
	if err == nil {
		_, err = reader.Frame(t.Context(), 0)
	}
	assert.Equal(t, fault.Transient, fault.KindOf(err), "a frame: %v", err)
}

func rowsOf(t *testing.T, store blob.Store) *artifact.Reader {
	return musttest.Get(artifact.OpenRows(t.Context(), store, "f"))(t)
}

// short gives at most 40 bytes of a long range.
type short struct{ *artifacttest.Memory }

func (s short) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	if r.Length > 100 {
		r.Length = 40
	}
	return s.Memory.Get(ctx, key, r)
}

func TestACancelledReadSaysSo(t *testing.T) {
	store := artifacttest.New()
	readers := map[string]*artifact.Reader{"ranges": rowFile(t, store, "f"), "whole": rowsOf(t, store)}
	ctx := musttest.EndedContext(t)
	_, err := artifact.OpenRows(ctx, store, "f")
	assert.True(t, errors.Is(err, context.Canceled), "open: %v", err)
	for what, reader := range readers {
		_, err := reader.Frame(ctx, 0)
		assert.True(t, errors.Is(err, context.Canceled), "%s, frame: %v", what, err)
		for _, err := range reader.Scan(ctx, 0, -1) {
			assert.ErrorIs(t, err, context.Canceled, "%s, scan", what)
		}
	}
}

// A small file is read in one request, whatever is asked of it then; a reader that is kept long holds its footer alone.
func TestASmallFileIsReadOnce(t *testing.T) {
	store := artifacttest.New()
	long := rowFile(t, store, "f")
	before := store.Calls(artifacttest.Get) + store.Calls(artifacttest.Stat)
	whole := rowsOf(t, store)
	for range 2 {
		assert.Equal(t, rowValue(7), string(musttest.Get(whole.Get(t.Context(), rowKey(7)))(t)))
		rows := 0
		for range musttest.All(t, whole.Scan(t.Context(), 0, -1)) {
			rows++
		}
		assert.Equal(t, rowCount, rows)
	}
	assert.Equal(t, 1, store.Calls(artifacttest.Get)+store.Calls(artifacttest.Stat)-before)
	before = store.Calls(artifacttest.Get)
	musttest.Get(long.Frame(t.Context(), 0))(t)
	assert.Equal(t, before+1, store.Calls(artifacttest.Get), "a frame is one request")
}

func TestASizedReaderAtReadsRangesAsAFileDoes(t *testing.T) {
	store := artifacttest.New()
	musttest.Get(blob.Write(t.Context(), store, "f", []byte("0123456789"), blob.Cond{}))(t)
	at := artifact.SizedReaderAt(t.Context(), store, "f", 10)
	for _, c := range []struct {
		off  int64
		size int
		want string
		err  error
	}{{0, 3, "012", nil}, {7, 3, "789", nil}, {8, 5, "89", io.EOF}, {20, 2, "", io.EOF}} {
		buffer := make([]byte, c.size)
		n, err := at.ReadAt(buffer, c.off)
		assert.True(t, string(buffer[:n]) == c.want && errors.Is(err, c.err),
			"%d bytes at %d: %q %v", c.size, c.off, buffer[:n], err)
	}
}

func TestAFileOfAnotherSizeThanItsManifestSaysIsDamaged(t *testing.T) {
	store := artifacttest.New()
	reader, info := rowFile(t, store, "f"), musttest.Get(store.Stat(t.Context(), "f"))(t)
	for _, size := range []int64{info.Size, 0, -1} { // not known, but for the first
		found := musttest.Get(artifact.OpenRowsOf(t.Context(), store, "f", size))(t)
		assert.True(t, found.Rows == reader.Rows && len(found.Frames) == len(reader.Frames), "said to be of %d bytes", size)
	}
	for _, size := range []int64{info.Size + 1, info.Size - 1, 1, 1 << 60} { // a whole file, of another content
		_, err := artifact.OpenRowsOf(t.Context(), store, "f", size)
		assert.True(t, fault.Is(err, fault.SegmentDamage), "said to be of %d bytes: %v", size, err)
	}
	store.Change("f", func(raw []byte) []byte { return raw[:len(raw)-9] })
	musttest.Refuse(artifact.OpenRowsOf(t.Context(), store, "f", info.Size))(t, fault.SegmentDamage, "memory:f")
	musttest.Refuse(artifact.OpenRows(t.Context(), store, "absent"))(t, fault.NotFound)
}

// A file that is loaded by its size gives the rows that a scan gives; one of another size is an error, not fewer rows.
func TestAFileIsLoadedByItsSizeOrNotAtAll(t *testing.T) {
	store := artifacttest.New()
	reader, info := rowFile(t, store, "k"), musttest.Get(store.Stat(t.Context(), "k"))(t)
	loaded := musttest.Get(artifact.LoadOf(t.Context(), store, "k", info.Size))(t)
	var want, got []string
	for row := range musttest.All(t, reader.Scan(t.Context(), 0, -1)) {
		want = append(want, fmt.Sprintf("%s %s %d", row.Key, row.Value, row.Frame))
	}
	for row := range musttest.All(t, loaded.Scan(t.Context(), 0, -1)) {
		got = append(got, fmt.Sprintf("%s %s %d", row.Key, row.Value, row.Frame))
	}
	assert.True(t, len(want) != 0 && slices.Equal(got, want), "%d rows, want %d", len(got), len(want))
	for _, size := range []int64{1, info.Size - 1, info.Size + 1, 2 * info.Size} {
		_, err := artifact.LoadOf(t.Context(), store, "k", size)
		assert.Error(t, err, "%d bytes were loaded of %d", size, info.Size)
	}
}

// Rows of a key may lie in several frames, and keys that a file does not have are asked for too.
func TestRowsUnderKeysAreThoseOfAScan(t *testing.T) {
	store, rows := artifacttest.New(), musttest.Get(artifact.NewRows())(t)
	defer rows.Discard()
	random := rand.New(rand.NewPCG(1, 2))
	var all [][2]string
	for i := range 800 {
		key := fmt.Sprintf("k%04d", 2*i)
		for range 1 + random.IntN(60)*(1-min(1, random.IntN(20))) {
			value := fmt.Sprintf("%s %0200d", key, random.IntN(1000))
			rows.Append(key, []byte(value))
			all = append(all, [2]string{key, value})
		}
	}
	require.NoError(t, rows.StoreScratch(t.Context(), store, "f"))
	info := musttest.Get(store.Stat(t.Context(), "f"))(t)
	for _, share := range []int{1, 3, 40, 799, 1600} {
		var keys []string
		for i := range 1600 {
			if random.IntN(1600) < share {
				keys = append(keys, fmt.Sprintf("k%04d", i))
			}
		}
		var want, got [][2]string
		for _, row := range all {
			if slices.Contains(keys, row[0]) {
				want = append(want, row)
			}
		}
		store.Reset()
		for row := range musttest.All(t, artifact.RowsUnder(t.Context(), store, "f", info.Size, slices.Values(keys))) {
			got = append(got, [2]string{string(row.Key), string(row.Value)})
		}
		assert.True(t, slices.Equal(got, want), "%d keys: %d rows, want %d", len(keys), len(got), len(want))
	}
}
