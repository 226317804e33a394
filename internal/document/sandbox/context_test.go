package sandbox_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// A context may be over before a document is begun, or while its child is taken.
func TestAContextThatIsOverAlreadyHarmsNobody(t *testing.T) {
	pool := newPool(t, 1, limits())
	readsGood(t, pool, "warm.html")
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 == 0 {
			cancel()
		} else {
			go cancel()
		}
		_, _, err := parseDocument(ctx, pool, "a.html", "<p>x</p>")
		require.True(t, (err == nil || errors.Is(err, context.Canceled)) && (err != nil || i%2 != 0), "%d: %v", i, err)
		cancel()
	}
	readsGood(t, pool, "b.html")
}

// A watcher of a context that ends before the session is whole must not find half of one.
func TestASessionOfAContextThatIsOverGivesItsChildUp(t *testing.T) {
	pool := newPool(t, 1, limits())
	readsGood(t, pool, "warm.html")
	pid := pool.PIDs()[0]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := pool.Session(ctx)
	assert.True(t, errors.Is(err, context.Canceled), "%v", err)
	assert.True(t, gone(pid), "the child is kept")
}

// kill ends every child from outside, as the system does where memory is short.
func kill(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestADocumentWhoseChildSomebodyElseKillsIsNotBlamedForIt(t *testing.T) {
	pool := newPool(t, 1, limits())
	long := "<p>" + strings.Repeat("salt and ships of the sea ", 20_000) + "</p>"
	for _, which := range []string{"a fresh child", "a child that had others"} {
		doc := must(pool.Parse(t.Context(), strings.NewReader(long), document.HTML, "a.html"))
		must(doc.Text.Read(make([]byte, 10)))
		kill(pool.PIDs())
		musttest.Code(t, musttest.Err(io.Copy(io.Discard, doc.Text)), fault.Quarantined, "%s", which)
		readsGood(t, pool, "b.html")
	}
}

func TestOfAnObjectThatIsTooLargeToKeepAKilledChildTellsNothing(t *testing.T) {
	pool := newPool(t, 1, limits())
	reader, writer := io.Pipe()
	go func() {
		large := strings.Repeat("<p>salt</p>", 20<<20/11)
		_, _ = io.WriteString(writer, large)
		kill(pool.PIDs())
		_, _ = io.WriteString(writer, large)
		_ = writer.Close()
	}()
	musttest.Code(t, musttest.Err(pool.Parse(t.Context(), reader, document.HTML, "a.html")), fault.Quarantined)
	_ = reader.Close()
}

// Once more means a child that had no other document, so that what it does is the document's.
func TestOnceMoreIsInAChildOfItsOwn(t *testing.T) {
	pool := newPool(t, 1, limits())
	readsGood(t, pool, "a.html")
	before := pool.PIDs()
	_, _, err := parseDocument(document.WithRetry(t.Context()), pool, "a.html", "<p>x</p>")
	require.NoError(t, err)
	after := pool.PIDs()
	assert.True(t, len(before) == 1 && len(after) == 2, "%v, then %v", before, after)
}

func TestAChildReadsWhatIsHiddenWhereItIsAskedTo(t *testing.T) {
	pool := newPool(t, 1, limits())
	content := documenttest.Zip(documenttest.Part{Name: "word/document.xml", Content: "<d><p><r><t>shown</t></r>" +
		"<r><rPr><vanish/></rPr><t> hid</t></r></p></d>"})
	hidden := document.WithReading(t.Context(), document.Reading{Hidden: true})
	for _, ctx := range []context.Context{t.Context(), hidden, t.Context()} {
		doc, text, err := parseDocument(ctx, pool, "a.docx", content)
		want, missing := "shown", "left out: hidden pieces of text: 1 (documents.hidden: include reads them)"
		if document.ReadingOf(ctx).Hidden {
			want, missing = "shown hid", ""
		}
		assert.True(t, err == nil && text == want && doc.Missing == missing, "%q %q %v", text, doc.Missing, err)
	}
}

// A PDF in a mail is read by a child that reads PDFs.
func TestAChildReadsWhatIsAttached(t *testing.T) {
	pool := newPool(t, 1, limits())
	content := documenttest.MailWith("s", documenttest.Part{Name: "p.pdf", Content: documenttest.PDFWith("pages")})
	list := document.WithReading(t.Context(), document.Reading{Attached: true, List: true})
	doc, text, err := parseDocument(list, pool, "a.eml", content)
	require.True(t, err == nil && text == "" && len(doc.Attached) == 1 && doc.Attached[0].Name == "p.pdf",
		"%+v, %q, %v", doc.Attached, text, err)
	one := document.WithReading(t.Context(), document.Reading{Attached: true, Part: doc.Attached[0]})
	_, text, err = parseDocument(one, pool, "a.eml", content)
	assert.True(t, err == nil && strings.TrimSpace(text) == "pages", "%q, %v", text, err)
}

// A child renders pages, also those of a PDF in a mail.
func TestAChildRendersPages(t *testing.T) {
	pool := newPool(t, 1, limits())
	scan := documenttest.PDFOfPages(595, 842, "one", documenttest.ScannedPage+"two")
	for object, content := range map[string]string{
		"a.pdf": scan, "a.eml": documenttest.MailWith("s", documenttest.Part{Name: "p.pdf", Content: scan}),
	} {
		part := document.Attachment{Name: "p.pdf", Kind: document.PDF} // in any version
		if object == "a.pdf" {
			part = document.Attachment{}
		}
		reading := document.Reading{Attached: true, Part: part, Scans: core.PagesScanned}
		doc, _, err := parseDocument(document.WithReading(t.Context(), reading), pool, object, content)
		require.True(t, err == nil && slices.Equal(doc.Scans, []int{2}), "%s: %v, %v", object, doc.Scans, err)
		reading = document.Reading{Attached: true, Part: part, Pictures: doc.Scans}
		doc, _, err = parseDocument(document.WithReading(t.Context(), reading), pool, object, content)
		assert.True(t, err == nil && len(doc.Pictures) == 1 && len(doc.Pictures[0].JPEG) > 0, "%s: %v", object, err)
	}
}

func TestATimeoutThatTheDocumentEarnedIsItsOwn(t *testing.T) {
	short := limits()
	short.Time, short.Memory = time.Second, 4<<30 // its time is over long before
	pool := newPool(t, 1, short)
	for range 5 { // on a busy machine it is not given its time
		_, _, err := parseDocument(t.Context(), pool, "hang.pdf", documenttest.Tireless())
		if fault.Is(err, fault.ParseTimeout) {
			return
		}
		require.True(t, fault.Is(err, fault.Quarantined), "%v", err)
	}
	t.Skip("the machine is too busy to tell")
}

func TestAPoolThatClosesBlamesNoDocument(t *testing.T) {
	pool := newPool(t, 1, limits())
	reader, writer := io.Pipe()
	go func() {
		_, _ = io.WriteString(writer, "<html>")
		go pool.Close()
		for !pool.Closed() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond) // it is killed, and not waited for yet
		_, _ = io.WriteString(writer, strings.Repeat("x", 1<<20))
		_ = writer.Close()
	}()
	musttest.Code(t, musttest.Err(pool.Parse(t.Context(), reader, document.HTML, "a.html")), fault.ParserDown)
	_ = reader.Close()
}

func TestClosingDoesNotWaitForAStoreThatHangs(t *testing.T) {
	pool := newPool(t, 1, limits())
	pool.Closing(200 * time.Millisecond)
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() { _, err := pool.Parse(t.Context(), reader, document.HTML, "a.html"); ended <- err }()
	must(io.WriteString(writer, "<html>"))
	pool.Close() // else it waits for what the next line does
	_ = writer.Close()
	err := <-ended
	assert.True(t, fault.Is(err, fault.ParserDown), "%v", err)
}

// behaviour is the argument that makes this test binary a child that does not do what it should.
const behaviour = "--behave-like="

// misbehave runs such a child.
func misbehave() {
	if len(os.Args) < 2 || !strings.HasPrefix(os.Args[1], behaviour) {
		return
	}
	how := strings.TrimPrefix(os.Args[1], behaviour)
	switch how {
	case "a parent":
		parent()
	case "an intruder":
		intrude()
	}
	say := func(letter byte, content string) { _ = sandbox.WriteFrame(os.Stdout, letter, []byte(content)) }
	in := bufio.NewReader(os.Stdin)
	say(sandbox.FrameReady, "")
	if how != "one that closes its input" {
		for space := make([]byte, 1<<20); ; {
			if letter, _, err := sandbox.ReadFrame(in, space); err != nil || letter == sandbox.FrameEnd {
				break
			}
		}
	}
	switch how {
	case "one that writes garbage":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte{0xff}, 1<<20))
	case "one that sends other bytes than text":
		say(sandbox.FrameHead, "{}")
		say(sandbox.FrameText, "\xff\xfe")
	case "one that never ends":
		say(sandbox.FrameHead, "{}")
		for text := strings.Repeat("x", 64<<10); ; {
			say(sandbox.FrameText, text)
		}
	case "one that never ends its head":
		for {
			say(sandbox.FrameHead, strings.Repeat(" ", 64<<10))
		}
	case "one that invents faults":
		say(sandbox.FrameFailed, `{"code":"store_full"}`)
		say(sandbox.FrameEnd, "s")
		time.Sleep(time.Minute)
	case "one that stops in the middle":
		say(sandbox.FrameHead, "{}")
		say(sandbox.FrameText, "half")
	case "one that closes its input":
		_ = os.Stdin.Close()
		time.Sleep(time.Minute)
	case "one that ignores signals":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Minute)
	}
	os.Exit(0)
}

// parent starts a child on a document that hangs, and prints its number.
func parent() {
	sandbox.RunChild()
	pool := must(sandbox.New(1, document.DefaultLimits()))
	go func() { _, _, _ = parseDocument(context.Background(), pool, "hang.pdf", documenttest.Tireless()) }()
	for len(pool.PIDs()) != 1 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println(pool.PIDs()[0])
	time.Sleep(time.Minute)
}

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
