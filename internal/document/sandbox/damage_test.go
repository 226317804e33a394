package sandbox_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// TestDamagedFilesAreReadOrRefused reads damaged samples of every kind as a build does, 24 of a kind unless
// UNWEAVER_TEST_MUTATIONS says how many. Each is read or refused as content; none ends its process, takes the time of a
// document or the memory of a box.
func TestDamagedFilesAreReadOrRefused(t *testing.T) {
	count := 24
	if n, err := strconv.Atoi(os.Getenv("UNWEAVER_TEST_MUTATIONS")); err == nil {
		count = n
	}
	files, names := documenttest.Samples(), map[document.Kind][]string{}
	for name := range files {
		kind, _, _ := document.TypeOf(name)
		names[kind] = append(names[kind], name)
	}
	for _, extension := range strings.Fields(strings.ReplaceAll(document.Extensions, ",", " ")) {
		if kind, _, ok := document.TypeOf("a" + extension); ok && names[kind] == nil {
			t.Errorf("there are no samples of %s", kind)
		}
	}
	limits := document.DefaultLimits()
	limits.Memory = 192 << 20
	for kind, names := range names {
		slices.Sort(names)
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, 1, limits)
			for number := range count {
				random := rand.New(rand.NewPCG(31, uint64(number)))
				name, other := names[number%len(names)], names[random.IntN(len(names))]
				content := damage(random, name, files[name], files[other])
				began := time.Now()
				err := readWhole(t.Context(), pool, name, content)
				stopped := fault.Is(err, fault.ParseCrashed) || fault.Is(err, fault.ParseMemory) ||
					fault.Is(err, fault.ParseTimeout) || fault.Is(err, fault.Quarantined)
				if known := fault.As(err); stopped || err != nil && (known == nil || known.Kind != fault.Content) {
					kept := path.Join(os.TempDir(), fmt.Sprintf("damaged-%d-%s", number, name))
					t.Errorf("mutation %d of %s, kept as %s: after %v: %v (%v)", number, name, kept, time.Since(began), err,
						os.WriteFile(kept, content, 0o600))
				}
			}
		})
	}
}

// readWhole reads an object to the end of its text or rows. The error of a row is that of the object.
func readWhole(ctx context.Context, pool *sandbox.Pool, name string, content []byte) error {
	kind, packed, _ := document.TypeOf(name)
	plain, err := document.Gunzip(bytes.NewReader(content), packed, name, pool.Limits())
	if err != nil {
		return err
	}
	if kind.HasRows() {
		text, err := document.Decode(plain, name)
		if err != nil {
			return err
		}
		return document.StreamRows(text, kind, name, pool.Limits(), func(row document.Row) error {
			if row.Err == nil {
				_, _, _, err = document.DecodeRecord(row.Canonical, document.DefaultLimits())
				return err
			}
			return row.Err
		})
	}
	doc, err := pool.Parse(ctx, plain, kind, name)
	if err == nil {
		_, err = io.Copy(io.Discard, doc.Text)
	}
	if err != nil && fault.As(err) == nil {
		err = fault.Unreadable.At("read", name).Because(err)
	}
	return err
}

// damage returns content changed in one to sixteen places; other is another file of the kind, pieces of which may come
// in. Half of what is packed is damaged inside: its checksum would refuse nearly all other damage.
func damage(random *rand.Rand, name string, content, other []byte) []byte {
	if random.IntN(2) == 0 {
		switch extension := path.Ext(name); extension {
		case ".docx", ".pptx", ".xlsx", ".epub":
			return damageParts(random, content, other)
		case ".gz":
			return packed(changed(random, unpacked(content), other))
		}
	}
	if random.IntN(2) == 0 {
		return flipped(random, content)
	}
	return changed(random, content, other)
}

// flipped changes bytes and keeps the length: a PDF says where its objects stand, and one in which they moved is
// mostly refused at once.
func flipped(random *rand.Rand, content []byte) []byte {
	out := bytes.Clone(content)
	for range 1 + random.IntN(16) {
		at := random.IntN(len(out))
		switch c := out[at]; {
		case c >= '0' && c <= '9':
			out[at] = byte('0' + random.IntN(10))
		case random.IntN(2) == 0:
			out[at] ^= 1 << random.IntN(8)
		default:
			out[at] = byte(random.Uint32())
		}
	}
	return out
}

var digits = regexp.MustCompile(`[0-9]+`)

// numbers that programs are known to stumble over.
var numbers = []string{"0", "1", "-1", "255", "256", "65535", "65536", "2147483647", "4294967296", "30000000000",
	"9223372036854775807", "1e999", "99999999999999999999"}

// changed removes, repeats, inserts and replaces pieces of content in one to eight places.
func changed(random *rand.Rand, content, other []byte) []byte {
	out := bytes.Clone(content)
	for range 1 + random.IntN(1+random.IntN(8)) {
		if len(out) == 0 {
			return []byte{byte(random.Uint32())}
		}
		at := random.IntN(len(out))
		end := min(at+1+random.IntN(1+random.IntN(64)), len(out))
		switch random.IntN(6) {
		case 0: // one byte
			out[at] = byte(random.Uint32())
		case 1: // a piece goes
			out = slices.Delete(out, at, end)
		case 2: // a piece comes twice, or often
			out = slices.Insert(out, at, bytes.Repeat(out[at:end], 1+random.IntN(1<<random.IntN(10)))...)
		case 3: // rubbish comes in
			for range end - at {
				out = slices.Insert(out, at, byte(random.Uint32()))
			}
		case 4: // the start of one, the end of another; or a piece of another
			from := random.IntN(len(other) + 1)
			if random.IntN(2) == 0 {
				out = append(out[:at], other[from:]...)
			} else {
				out = slices.Insert(out, at, other[from:min(len(other), from+512)]...)
			}
		case 5: // another number
			if found := digits.FindIndex(out[at:]); found != nil {
				number := numbers[random.IntN(len(numbers))]
				if random.IntN(2) == 0 {
					number = strconv.Itoa(random.IntN(1 << random.IntN(24)))
				}
				out = slices.Replace(out, at+found[0], at+found[1], []byte(number)...)
			}
		}
	}
	return out
}

// damageParts changes parts of an archive and packs all again.
func damageParts(random *rand.Rand, content, other []byte) []byte {
	archive := must(zip.NewReader(bytes.NewReader(content), int64(len(content))))
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, file := range archive.File {
		plain := must(io.ReadAll(must(file.Open())))
		if strings.HasSuffix(file.Name, "document.xml") || random.IntN(4) == 0 {
			plain = changed(random, plain, other)
		}
		must(must(writer.Create(file.Name)).Write(plain))
	}
	must(0, writer.Close())
	return out.Bytes()
}

func packed(plain []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	must(writer.Write(plain))
	must(0, writer.Close())
	return out.Bytes()
}

func unpacked(content []byte) []byte {
	return must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(content)))))
}

// must returns value: samples are sound, so that an error is one of the test.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
