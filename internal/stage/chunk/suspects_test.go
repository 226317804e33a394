package chunk_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/box"
	"github.com/unweaver/unweaver/internal/document/documenttest"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
)

func TestMain(m *testing.M) {
	box.Child()
	os.Exit(m.Run())
}

// fatal is a parser in a process that dies of one document: an attempt that it stops at never returns.
type fatal struct {
	document.Here
	object string
	after  time.Duration // of reading it
	died   chan struct{}
	tried  int
}

func (f *fatal) Parse(ctx context.Context, r io.Reader, kind document.Kind, object string) (document.Doc, error) {
	if object != f.object {
		return f.Here.Parse(ctx, r, kind, object)
	}
	f.tried++
	time.Sleep(f.after)
	close(f.died)
	select {} // the process is gone: nothing after this is done
}

// attempt is a try of the only unit in a process of its own. dead tells that it died.
func (r *run) attempt(tries int, parser document.Parser, died <-chan struct{}) (res chunk.Result, dead bool) {
	r.t.Helper()
	units := r.plan().Units
	type ended struct {
		res chunk.Result
		err error
	}
	end := make(chan ended, 1)
	go func() {
		var out ended
		out.res, out.err = chunk.Run(context.WithoutCancel(r.t.Context()), chunk.In{
			Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, From: units[0].From, To: units[0].To,
			OnProgress: func(int64) {}, Tries: tries, Limits: document.DefaultLimits(), Parser: parser,
		})
		end <- out
	}()
	select {
	case <-died:
		return res, true
	case out := <-end:
		if out.err != nil {
			r.t.Fatal(out.err)
		}
		return out.res, false
	}
}

func TestADocumentThatProcessesDieOfIsNamedAndNotTriedAThirdTime(t *testing.T) {
	for name, test := range map[string]struct {
		after    time.Duration
		attempts int // that die
	}{
		"after a while": {1500 * time.Millisecond, 2},
		"at once":       {0, 4}, // the first two leave no note, as it takes a round trip
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{"a.html": "<p>Salt.</p>", "b.html": "<p>Ships.</p>", "c.html": "<p>Sea.</p>"})
			for try := 1; ; try++ {
				parser := &fatal{object: "b.html", after: test.after, died: make(chan struct{})}
				parser.Limits = document.DefaultLimits()
				res, dead := r.attempt(try, parser, parser.died)
				if dead && try <= test.attempts {
					continue
				}
				if dead || try != test.attempts+1 || parser.tried > 0 {
					t.Fatalf("attempt %d: dead %v", try, dead)
				}
				if res.Counts.Documents != 2 || res.Failed != 1 || len(res.Problems) != 1 ||
					res.Problems[0].Code != string(fault.Quarantined) || res.Problems[0].Object != "b.html" {
					t.Errorf("%+v", res)
				}
				return
			}
		})
	}
}

func TestAnAttemptThatIsStoppedOrFailsCountsAgainstNoDocument(t *testing.T) {
	r := newRun(t, map[string]string{"a.html": "<p>Salt.</p>"})
	for try := 1; try <= 4; try++ {
		_, err := chunk.Run(t.Context(), r.with(try, stopping{}))
		if !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
	}
	res, err := chunk.Run(t.Context(), r.with(5, document.Here{Limits: document.DefaultLimits()}))
	if err != nil || res.Counts.Documents != 1 {
		t.Errorf("%+v, %v", res, err)
	}
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
		OnProgress: func(int64) {}, Tries: tries, Limits: document.DefaultLimits(), Parser: parser,
	}
}

func TestACorpusOfPillsAndGoodDocumentsIsChunkedAndNamesEachPill(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Time, limits.Memory, limits.Text = time.Second, 192<<20, 4<<20
	pool, err := box.New(2, limits)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	objects := map[string]string{
		"a.md": "Salt of the lake.", "m.html": "<p>Ships of the lake.</p>", "z.pdf": documenttest.PDF("Port Alma"),
	}
	good := len(objects)
	for name, content := range documenttest.SmallPDFs() {
		objects[name] = content
	}
	r := newRun(t, objects)
	res, err := chunk.Run(t.Context(), r.with(1, pool))
	if err != nil {
		t.Fatal(err)
	}
	if res.Counts.Documents != int64(good) || res.Failed != int64(len(documenttest.SmallPDFs())) {
		t.Errorf("%d documents, %d failed", res.Counts.Documents, res.Failed)
	}
	named := map[string]bool{}
	for _, problem := range res.Problems {
		named[problem.Object] = strings.Contains(problem.Detail, problem.Object)
	}
	for name := range documenttest.SmallPDFs() {
		if !named[name] {
			t.Errorf("%s is not named: %v", name, res.Problems)
		}
	}
}

func TestPauseAndCancelTakeEffectWhileADocumentHangs(t *testing.T) {
	pool, err := box.New(1, document.DefaultLimits()) // a minute for each
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := newRun(t, map[string]string{"hang.pdf": documenttest.Tireless()})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	in, start := r.with(1, pool), time.Now()
	if _, err := chunk.Run(ctx, in); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
