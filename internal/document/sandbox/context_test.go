package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
		_, err := io.Copy(io.Discard, doc.Text)
		assert.True(t, fault.Is(err, fault.Quarantined), "%s: %v", which, err)
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
	_, err := pool.Parse(t.Context(), reader, document.HTML, "a.html")
	assert.True(t, fault.Is(err, fault.Quarantined), "%v", err)
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
	_, err := pool.Parse(t.Context(), reader, document.HTML, "a.html")
	assert.True(t, fault.Is(err, fault.ParserDown), "%v", err)
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
