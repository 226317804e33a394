package chunk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func TestMain(m *testing.M) {
	sandbox.RunChild()
	os.Exit(m.Run())
}

// fatal is a parser in a process that dies of one document: an attempt that it stops at never returns.
type fatal struct {
	documenttest.Here
	object string
	noted  func() // waits until the note is written; nil: it dies before
	died   chan struct{}
	tried  int
}

func (f *fatal) Parse(ctx context.Context, r io.Reader, kind document.Kind, object string) (document.Doc, error) {
	if object != f.object {
		return f.Here.Parse(ctx, r, kind, object)
	}
	f.tried++
	if f.noted != nil {
		f.noted()
	}
	close(f.died)
	select {} // the process is gone: nothing after this is done
}

// attempt tries the only unit in a separate process; dead reports that the process died.
func (r *run) attempt(tries int, parser document.Parser, died <-chan struct{}) (res chunk.Result, dead bool) {
	in, end := r.with(tries, parser), make(chan chunk.Result, 1)
	go func() {
		out, err := chunk.Run(context.WithoutCancel(r.t.Context()), in)
		assert.NoError(r.t, err)
		end <- out
	}()
	select {
	case <-died:
		return res, true
	case res = <-end:
		return res, false
	}
}

// noted waits until a process's note of the only unit names the second document.
func (r *run) noted(process string) {
	for {
		var note struct {
			Process  string
			Document int
		}
		key := r.scratch + "/chunk-00000-reading.json"
		_, err := blob.ReadJSON(context.Background(), r.art.Store, key, &note)
		if err == nil && note.Process == process && note.Document == 2 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestADocumentThatProcessesDieOfIsNamedAndNotTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		late      bool // it dies after the note is written
		elsewhere bool // the process reads another document too
		attempts  int  // that die
	}{
		"after a while":          {true, false, 2},
		"at once":                {false, false, 4}, // the first two leave no note, as it takes a round trip
		"beside other documents": {true, true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{"a.html": "<p>Salt.</p>", "b.html": "<p>Ships.</p>", "c.html": "<p>Sea.</p>"})
			for try := 1; ; try++ {
				process, noteAfter := fmt.Sprint(try), time.Hour
				if test.late {
					noteAfter = time.Millisecond
				}
				defer chunk.Process(process, noteAfter, time.Hour, 50*time.Millisecond)()
				if test.elsewhere {
					chunk.Elsewhere()
				}
				parser := &fatal{object: "b.html", died: make(chan struct{})}
				if test.late {
					parser.noted = func() { r.noted(process) }
				}
				parser.Limits = document.DefaultLimits()
				res, dead := r.attempt(try, parser, parser.died)
				if dead && try <= test.attempts {
					continue
				}
				require.True(t, !dead && try == test.attempts+1 && parser.tried <= 0, "attempt %d: dead %v", try, dead)
				assert.True(t, res.Counts.Documents == 2 && res.Failed == 1 && len(res.Problems) == 1 &&
					res.Problems[0].Code == string(fault.Quarantined) && res.Problems[0].Object == "b.html", "%+v", res)
				return
			}
		})
	}
}

// slow reads one document for long, and does no harm.
type slow struct {
	documenttest.Here
	object string
	takes  time.Duration
}

func (s slow) Parse(ctx context.Context, r io.Reader, kind document.Kind, object string) (document.Doc, error) {
	if object == s.object {
		time.Sleep(s.takes)
	}
	return s.Here.Parse(ctx, r, kind, object)
}

// An attempt that the engine gave up, as heartbeats were lost, goes on beside the next ones. No process dies.
func TestAttemptsThatOverlapCountAgainstNoDocument(t *testing.T) {
	for where, process := range map[string]func(try int) string{
		"in one process":           func(int) string { return "one" },
		"in a process for each":    func(try int) string { return fmt.Sprint(try) },
		"in two that are answered": func(try int) string { return fmt.Sprint(try % 2) },
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRun(t, map[string]string{"a.html": "<p>Salt.</p>", "b.html": "<p>Ships.</p>", "c.html": "<p>Sea.</p>"})
				parser := slow{documenttest.Here{Limits: document.DefaultLimits()}, "b.html", 2500 * time.Millisecond}
				ends := make(chan chunk.Result)
				const attempts = 5
				for try := 1; try <= attempts; try++ {
					defer chunk.Process(process(try), 50*time.Millisecond, 50*time.Millisecond, 2*time.Second)()
					in, begun := r.with(try, parser), make(chan struct{}, 10)
					in.OnProgress = func(int64) { begun <- struct{}{} }
					go func() {
						res, err := chunk.Run(context.WithoutCancel(t.Context()), in)
						assert.NoError(t, err)
						ends <- res
					}()
					<-begun // it has its pace
					time.Sleep(200 * time.Millisecond)
				}
				for range attempts {
					res := <-ends
					assert.True(t, res.Failed <= 0 && res.Counts.Documents == 3, "%+v", res)
				}
			})
		})
	}
}

// A process that is asked to stop may end before the document does that it reads.
func TestAnAttemptThatIsStoppedTakesItsNoteBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(t, map[string]string{"b.html": "<p>Ships.</p>"})
		defer chunk.Process("a", 50*time.Millisecond, time.Hour, time.Millisecond)()
		ctx, cancel := context.WithCancel(t.Context())
		parser := slow{documenttest.Here{Limits: document.DefaultLimits()}, "b.html", 3 * time.Second}
		in, ended := r.with(1, parser), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = chunk.Run(ctx, in)
		}()
		noted := func() bool {
			raw, _, err := blob.Read(t.Context(), r.art.Store, r.scratch+"/chunk-00000-reading.json")
			return err == nil && strings.Contains(string(raw), `"document"`)
		}
		time.Sleep(time.Second)
		require.True(t, noted(), "no note")
		cancel()
		time.Sleep(time.Second)
		select {
		case <-ended:
			t.Fatal("it was over too early to tell")
		default:
		}
		assert.False(t, noted(), "the note stands")
		<-ended
	})
}

// interrupted is a parser whose process is killed by others at first.
type interrupted struct {
	documenttest.Here
	times int
	tries []bool // whether each was for once more
}

func (p *interrupted) Parse(ctx context.Context, r io.Reader, kind document.Kind, object string) (document.Doc, error) {
	p.tries = append(p.tries, document.IsRetry(ctx))
	doc, err := p.Here.Parse(ctx, r, kind, object)
	if len(p.tries) <= p.times {
		doc.Text = io.MultiReader(io.LimitReader(doc.Text, 3),
			iotest.ErrReader(fault.Quarantined.At("parse", object).Because("killed")))
	}
	return doc, err
}

func TestADocumentWhoseProcessSomebodyElseKilledIsReadOnceMore(t *testing.T) {
	for times, want := range map[int]int64{1: 1, 2: 0} {
		r := newRun(t, map[string]string{"a.html": "<p>Salt of the sea.</p>"})
		parser := &interrupted{times: times}
		parser.Limits = document.DefaultLimits()
		res, err := chunk.Run(t.Context(), r.with(1, parser))
		assert.True(t, err == nil && res.Counts.Documents == want && res.Failed == 1-want &&
			slices.Equal(parser.tries, []bool{false, true}), "%d times: %+v, %v, tries %v", times, res, err, parser.tries)
		assert.True(t, want != 0 || res.Problems[0].Code == string(fault.Quarantined), "%+v", res.Problems)
	}
}

func TestAnAttemptThatIsStoppedOrFailsCountsAgainstNoDocument(t *testing.T) {
	r := newRun(t, map[string]string{"a.html": "<p>Salt.</p>"})
	for try := 1; try <= 4; try++ {
		require.ErrorIs(t, musttest.Err(chunk.Run(t.Context(), r.with(try, stopping{}))), errStopped)
	}
	res, err := chunk.Run(t.Context(), r.with(5, documenttest.Here{Limits: document.DefaultLimits()}))
	assert.True(t, err == nil && res.Counts.Documents == 1, "%+v, %v", res, err)
}

var errStopped = errors.New("stopped")

type stopping struct{}

func (stopping) Parse(context.Context, io.Reader, document.Kind, string) (document.Doc, error) {
	return document.Doc{}, fault.StoreDown.At("read", "a store").Because(errStopped)
}

func (r *run) with(tries int, parser document.Parser) chunk.In {
	units := r.plan().Units
	return chunk.In{
		Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, From: units[0].From, To: units[0].To,
		Plan: r.rows(), OnProgress: func(int64) {}, Tries: tries, Limits: document.DefaultLimits(), Parser: parser,
	}
}

func TestACorpusOfPillsAndGoodDocumentsIsChunkedAndNamesEachPill(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Time, limits.Memory, limits.Text = time.Minute, 192<<20, 4<<20
	pool := stagetest.Must(sandbox.New(2, limits))
	defer pool.Close()
	objects := map[string]string{
		"a.md": "Salt of the lake.", "m.html": "<p>Ships of the lake.</p>", "z.pdf": documenttest.PDF("Port Alma"),
	}
	good := len(objects)
	for name, content := range documenttest.Deadly() {
		objects[name] = content
	}
	r := newRun(t, objects)
	res := stagetest.Must(chunk.Run(t.Context(), r.with(1, pool)))
	assert.True(t, res.Counts.Documents == int64(good) && res.Failed == int64(len(documenttest.Deadly())),
		"%d documents, %d failed", res.Counts.Documents, res.Failed)
	named := map[string]bool{}
	for _, problem := range res.Problems {
		named[problem.Object] = strings.Contains(problem.Detail, problem.Object)
	}
	for name := range documenttest.Deadly() {
		assert.True(t, named[name], "%s is not named: %v", name, res.Problems)
	}
}

func TestPauseAndCancelTakeEffectWhileADocumentHangs(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Time, limits.Memory = 10*time.Minute, 4<<30 // a fast machine takes the usual 512 MiB in a second
	pool := stagetest.Must(sandbox.New(1, limits))
	defer pool.Close()
	r := newRun(t, map[string]string{"hang.pdf": documenttest.Tireless()})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	in, start := r.with(1, pool), time.Now()
	assert.ErrorIs(t, musttest.Err(chunk.Run(ctx, in)), context.Canceled)
	assert.LessOrEqual(t, time.Since(start), 2*time.Minute, "it took")
}
