package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/model/modeltest"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/ops/admin"
	"github.com/unweaver/unweaver/starter/cli"
)

const kills = 20

// process is the embedded stack as a process that can be killed.
type process struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	dev cli.Dev
}

func (p *process) start() {
	p.t.Helper()
	bin := os.Getenv("UNWEAVER_TEST_BIN")
	if bin == "" {
		p.t.Skip("UNWEAVER_TEST_BIN is not set: run this by make test")
	}
	p.cmd = exec.Command(
		filepath.Join(bin, "unweaver-dev"),
		"dev",
		"--data-dir",
		p.dir,
		"--temporal-port",
		"0",
		"--http-port",
		"0",
	)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	for range 600 {
		if d, ok := cli.ReadDev(p.dir); ok && d.PID == p.cmd.Process.Pid {
			p.dev = d
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Fatal("the stack was not ready in 30 s")
}

func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
}

func (p *process) control() ops.Control {
	return &admin.Client{Base: p.dev.HTTP, Token: p.dev.Token}
}

// Twenty kills at random instants of one build: the same hashes as an undisturbed run, and no answer paid twice beyond
// what was in flight (docs/invariants.md, 1 and 2).
func TestKilledTwentyTimesABuildEndsAsIfUndisturbed(t *testing.T) {
	const flight = 8
	s := serve(t, modeltest.Options{Shuffle: true})
	docs := copySample(t)
	sp := spec(
		t,
		"k",
		docs,
		s,
		"indexes.k.chunking.strategy=document",
		fmt.Sprintf("models.limits.concurrency=%d", flight),
		"indexes.k.shortening.threshold=400",
	)
	want := completed(t, index(t, shared.Control, sp))

	victim := serve(
		t,
		modeltest.Options{Latency: 150 * time.Millisecond, EmbedLatency: 60 * time.Millisecond, Shuffle: true},
	)
	sp = spec(
		t,
		"k",
		docs,
		victim,
		"indexes.k.chunking.strategy=document",
		fmt.Sprintf("models.limits.concurrency=%d", flight),
		"indexes.k.shortening.threshold=400",
	)
	p := &process{t: t, dir: t.TempDir()}
	p.start()
	defer func() { p.kill() }()
	if _, err := p.control().Index(t.Context(), ops.IndexRequest{Spec: sp, Generation: "g"}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(20, 26))
	done := 0
	for i := range kills {
		time.Sleep(time.Duration(50+r.IntN(900)) * time.Millisecond)
		p.kill()
		p.start()
		if st, err := p.control().Status(t.Context(), "k/g"); err == nil && corpus.Terminal(st.Status) {
			done = i + 1
			break
		}
	}
	st := completed(t, wait(t, p.control(), "k/g"))
	if done > 0 {
		t.Logf("the build had ended after %d kills", done)
	}
	if st.ContentHash != want.ContentHash || st.TextHash != want.TextHash || st.VectorHash != want.VectorHash {
		t.Errorf(
			"hashes %s %s %s, undisturbed %s %s %s",
			st.ContentHash,
			st.TextHash,
			st.VectorHash,
			want.ContentHash,
			want.TextHash,
			want.VectorHash,
		)
	}
	if st.Documents != want.Documents || st.Classes != want.Classes || st.DeadLetters != 0 {
		t.Errorf("%+v", st.Report)
	}
	paid := victim.Stats()
	t.Logf("paid twice after %d kills: %d chat answers, %d embedded texts", kills, paid.Duplicates, paid.EmbedTwice)
	if paid.Duplicates > flight*kills {
		t.Errorf("%d chat answers were paid twice, %d were in flight at most", paid.Duplicates, flight*kills)
	}
	if q := chunksOf(ask(t, p.dev.HTTP, "k", "Journal of Psychotherapy Integration", nil)); len(q) == 0 {
		t.Error("the index does not answer")
	}
}
