package mapped_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

type record struct {
	ID    uint64
	Score float32
	Place uint32
}

type section struct {
	name    string
	content []byte
}

func write(t testing.TB, sections []section) []byte {
	var buffer bytes.Buffer
	writer := mapped.NewWriter(&buffer, "test", 3, map[string]string{"analyser": "en/2"})
	for _, s := range sections {
		writer.BeginSection(s.name)
		for rest := s.content; len(rest) > 0; { // in uneven pieces, across the borders of blocks
			n := min(len(rest), 700_001)
			musttest.Get(writer.Write(rest[:n]))(t)
			rest = rest[n:]
		}
	}
	require.NoError(t, writer.Close())
	return buffer.Bytes()
}

func open(t testing.TB, content []byte) (*mapped.File, error) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return mapped.Open(path, "test", 3)
}

var sections = []section{
	{"empty", nil},
	{"small", []byte("abc")},
	{"over a block", bytes.Repeat([]byte("0123456789abcdef"), 70_000)},
	{"a block", make([]byte, 1<<20)},
	{"last", []byte{1}},
}

func TestSectionsComeBackAligned(t *testing.T) {
	raw := write(t, sections)
	file := musttest.Get(open(t, raw))(t)
	defer file.Close()
	for _, s := range sections {
		assert.True(t, bytes.Equal(file.Bytes(s.name), s.content), "%s: other content", s.name)
	}
	assert.True(t, file.Bytes("missing") == nil && file.Meta("analyser") == "en/2" && file.Meta("other") == "",
		"a missing section, or metadata")
	assert.True(t, bytes.Equal(raw, write(t, sections)), "equal sections are other bytes")
}

func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	records := []record{{1, 0.5, 7}, {1 << 60, -1, 0}}
	var buffer bytes.Buffer
	writer := mapped.NewWriter(&buffer, "test", 3, nil)
	writer.BeginSection("odd")
	_, _ = writer.Write([]byte{1, 2, 3}) // Close reports errors
	writer.BeginSection("records")
	mapped.Put(writer, records)
	mapped.Put(writer, []record(nil))
	require.NoError(t, writer.Close())
	file := musttest.Get(open(t, buffer.Bytes()))(t)
	defer file.Close()
	assert.Equal(t, records, mapped.ViewSection[record](file, "records"))
	assert.True(t, mapped.ViewSection[record](file, "missing") == nil && mapped.ViewSection[record](file, "odd") == nil,
		"records of a section that has none")
}

func TestSortedStringsAreFound(t *testing.T) {
	words := []string{"", "a", "ab", "b", "é"}
	var text []byte
	var ends []uint64
	for _, word := range words {
		text = append(text, word...)
		ends = append(ends, uint64(len(text)))
	}
	var buffer bytes.Buffer
	writer := mapped.NewWriter(&buffer, "test", 3, nil)
	writer.BeginSection("text")
	_, _ = writer.Write(text) // Close reports errors
	writer.BeginSection("ends")
	mapped.Put(writer, ends)
	require.NoError(t, writer.Close())
	file := musttest.Get(open(t, buffer.Bytes()))(t)
	defer file.Close()
	table := mapped.StringsOf(file, "text", "ends")
	for i, word := range words {
		assert.True(t, table.At(i) == word && table.Find(word) == i && table.FindFrom(word) == i,
			"%q at %d: %q, found at %d", word, i, table.At(i), table.Find(word))
	}
	for word, place := range map[string]int{"aa": 2, "c": 4, "zz": 4, "ü": 5} {
		assert.True(t, table.Find(word) == -1 && table.FindFrom(word) == place,
			"%q: found at %d, belongs at %d", word, table.Find(word), table.FindFrom(word))
	}
	assert.True(t, table.Len() == len(words) && mapped.StringsOf(file, "missing", "missing").Find("a") == -1,
		"the length, or an empty table")
}

// A bit of every byte of a small file is flipped: an error, or the same sections (padding says nothing).
// Promises: 12.
func TestAFlippedBitIsSeenOrHarmless(t *testing.T) {
	small := []section{{"one", []byte("content of the first")}, {"two", []byte{0, 0, 0, 0}}}
	good := write(t, small)
	path := filepath.Join(t.TempDir(), "file")
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		file, err := mapped.Open(path, "test", 3)
		if err != nil {
			require.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), path), "byte %d: %v", i, err)
			continue
		}
		for _, s := range small {
			require.True(t, bytes.Equal(file.Bytes(s.name), s.content),
				"byte %d: section %s differs without an error", i, s.name)
		}
		file.Close()
	}
}

func TestDamageInALaterBlockIsNamed(t *testing.T) {
	raw := write(t, sections)
	at := bytes.Index(raw, []byte("0123456789abcdef")) + 1<<20 + 5
	raw[at] ^= 1
	musttest.Refuse(open(t, raw))(t, fault.SegmentDamage, "section over a block block 1")
}

func TestCutFilesAndOtherKindsAreRefused(t *testing.T) {
	good := write(t, []section{{"one", []byte("x")}})
	for n := range good {
		file, err := open(t, good[:n])
		require.True(t, fault.Is(err, fault.SegmentDamage), "cut to %d bytes: %v, %v", n, file, err)
	}
	path := filepath.Join(t.TempDir(), "file")
	musttest.Refuse(mapped.Open(path, "test", 3))(t, fault.NotFound)
	require.NoError(t, os.WriteFile(path, good, 0o600))
	musttest.Refuse(mapped.Open(path, "other", 3))(t, fault.SegmentDamage, "kind test")
	musttest.Refuse(mapped.Open(path, "test", 4))(t, fault.FormatUnknown, "version 3")
}

// A file is valid while it is mapped, also when its name is gone; closing twice is harmless.
func TestAMappedFileOutlivesItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, write(t, []section{{"one", []byte("still here")}}), 0o600))
	file := musttest.Get(mapped.Open(path, "test", 3))(t)
	require.NoError(t, os.Remove(path))
	assert.Equal(t, "still here", string(file.Bytes("one")), "the content is gone")
	file.Close()
	file.Close()
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestAWriteErrorIsToldByClose(t *testing.T) {
	for _, left := range []int{0, 8, 64, 100} {
		writer := mapped.NewWriter(&failing{left}, "test", 3, nil)
		writer.BeginSection("one")
		mapped.Put(writer, make([]record, 10))
		assert.ErrorIs(t, writer.Close(), io.ErrShortWrite, "room for %d bytes", left)
	}
	writer := mapped.NewWriter(&failing{8}, "test", 3, nil)
	var one mapped.Column
	defer one.Close()
	require.NoError(t, one.Put(make([]byte, 100)))
	err := errors.Join(one.WriteSection(writer, "one"), one.WriteSection(writer, "two"), one.WriteSection(writer, "three"))
	assert.EqualError(t, err, io.ErrShortWrite.Error(), "of many sections one has the error")
}

// Columns are written side by side and come out one after another, from memory or from disk.
func TestColumnsComeOutWhole(t *testing.T) {
	dir := t.TempDir()
	open := scratchtest.In(t, dir)
	for _, count := range []int{0, 10, 200_000} {
		var numbers, text mapped.Column
		var want bytes.Buffer
		for i := range count {
			require.NoError(t, mapped.PutRecord(&numbers, record{ID: uint64(i)}))
			fmt.Fprintf(&want, "%d,", i)
			require.NoError(t, text.Put(fmt.Appendf(nil, "%d,", i)))
		}
		var gotNumbers, gotText bytes.Buffer
		require.NoError(t, errors.Join(numbers.CopyTo(&gotNumbers), text.CopyTo(&gotText)))
		assert.True(t, gotNumbers.Len() == count*16 && bytes.Equal(gotText.Bytes(), want.Bytes()),
			"%d records: %d bytes and %d bytes of text", count, gotNumbers.Len(), gotText.Len())
		viewed, err := mapped.ViewRecords[record](&numbers)
		require.True(t, err == nil && len(viewed) == count, "%d of %d records, %v", len(viewed), count, err)
		for i, one := range viewed {
			require.Equal(t, uint64(i), one.ID, "record %d of %d", i, count)
		}
		gotNumbers.Reset()
		if err := numbers.CopyTo(&gotNumbers); err != nil || gotNumbers.Len() != count*16 {
			t.Errorf("%d records that were viewed: %d bytes, %v", count, gotNumbers.Len(), err)
		}
		numbers.Close()
		text.Close()
		assert.Empty(t, open(), "files stay")
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "gone"))
	var column mapped.Column
	defer column.Close()
	musttest.Code(t, column.Put(make([]byte, 2<<20)), fault.StoreFull, "no room")
}

// fronts returns strings of which neighbours are equal, begin the same, share nothing, are empty or long.
func fronts(count int) []string {
	out := make([]string, count)
	for i := range out {
		switch i % 7 {
		case 0:
			out[i] = fmt.Sprintf("name %d", i)
		case 1, 2:
			out[i] = out[i-1]
		case 3:
			out[i] = out[i-1] + strings.Repeat("x", i)
		case 4:
			out[i] = ""
		default:
			out[i] = fmt.Sprintf("%x", i*7919)
		}
	}
	return out
}

func frontTable(t testing.TB, strings []string) []byte {
	var writer mapped.FrontWriter
	defer writer.Close()
	var out bytes.Buffer
	file := mapped.NewWriter(&out, "test", 1, nil)
	for _, s := range strings {
		require.NoError(t, writer.Add([]byte(s)))
	}
	require.NoError(t, writer.Write(file, "strings", "groups"))
	require.NoError(t, file.Close())
	return out.Bytes()
}

func openFront(t testing.TB, raw []byte) (mapped.Front, error) {
	path := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	file, err := mapped.Open(path, "test", 1)
	if err != nil {
		return mapped.Front{}, err
	}
	t.Cleanup(file.Close)
	return mapped.FrontOf(file, "strings", "groups"), nil
}

func TestAFrontCodedTableGivesItsStringsInAnyOrder(t *testing.T) {
	for _, count := range []int{0, 1, 15, 16, 17, 32, 33, 500} {
		want := fronts(count)
		table, err := openFront(t, frontTable(t, want))
		require.NoError(t, err, "%d strings", count)
		for i := range want {
			place := (i*31 + 7) % count
			got := table.Append([]byte("before "), place)
			require.True(t, string(got) == "before "+want[place], "string %d of %d: %q, want %q", place, count, got, want[place])
		}
	}
}
