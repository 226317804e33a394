package programs

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

const operationSettings = `
models:
  chat: {provider: openai, model: chat, base_url: "%[1]s", api_key_env: E2E_KEY}
  embedding: {provider: openai, model: embedding, base_url: "%[1]s", api_key_env: E2E_KEY}
  limits: {concurrency: 4}
indexes:
  first: {corpus: "%[2]s/first"}
  enriched: {corpus: "%[2]s/enriched", enrich: [gem, facts, aliases]}
  night: {corpus: "%[2]s/night", enrich: [gem]}
  merged: {corpus: "%[2]s/merged"}
  batched: {corpus: "%[2]s/batched", models: {chat: {mode: batch, batch: {poll: 100ms, requests: 4}}}}
  gated: {corpus: "%[2]s/gated", gate: {max_removed: 0.2}}
  failing: {corpus: "%[2]s/failing"}
  archive: {corpus: "%[2]s/archive"}
`

var kills = flag.Int("kills", 7, "of each operation")

// inFlight is how many calls may be in flight: what a kill may have paid for again.
const inFlight = 4

// operation is what is killed: commands on an index. GEN is the generation that they name.
type operation struct {
	name, index string
	commands    []string
}

var operations = []operation{
	{"first build", "first", []string{"index --index first --wait"}},
	{"first build with enrichments", "enriched", []string{"index --index enriched --wait"}},
	{"night", "night", []string{"index --index night --wait"}},
	{"night with a merge", "merged", []string{"index --index merged --wait"}},
	{"index --rebuild", "night", []string{"index --index night --rebuild --wait"}},
	{"first build in mode batch", "batched", []string{"index --index batched --wait"}},
	{"restore", "night", []string{"restore --index night"}},
	{"purge", "night", []string{"purge quay-03.md --index night --yes --wait"}},
	{"rollback", "night", []string{"rollback GEN --index night"}},
	{"publish of a held generation", "gated", []string{"publish GEN --index gated"}},
	{"branch and its build", "line", []string{
		"branch merged --as line --set shortening.threshold=200", "index --index line --wait",
	}},
	{"promote", "archive", []string{"promote wide"}},
	{"retry-failed", "failing", []string{"retry-failed --index failing --wait"}},
	{"backfill", "archive", []string{"backfill start old --index archive --prefix old/ --wait"}},
}

// site is a data directory on which each operation may be asked for.
type site struct {
	*installation
	server      *modeltest.Server
	generations map[string]string // what GEN is, by index
}

func newSite(t *testing.T, building sync.Locker) *site {
	building.Lock()
	defer building.Unlock()
	server := modeltest.New(modeltest.Options{Poison: "Zyxpoison"})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	s := &site{installation: install(t, server.URL, operationSettings), server: server, generations: map[string]string{}}
	put := func(index string, n, night int) {
		name, text := quay(n, night)
		s.write(filepath.Join(index, name), strings.ReplaceAll(text, "Verin", "Verin "+index))
	}
	for _, index := range strings.Fields("first enriched night merged batched gated failing archive") {
		for n := range 16 {
			put(index, n, 0)
		}
	}
	s.write("failing/stone.md", "# Stone\n\nThe Zyxpoison stone of Verin was found by Dora Sanz.\n")
	s.start()
	defer s.kill()
	for _, index := range strings.Fields("night merged gated archive") {
		s.must(0, "index", "--index", index, "--wait")
	}
	s.generations["night"] = s.current("night")["generation"].(string)
	s.must(3, "index", "--index", "failing", "--wait")
	put("night", 20, 1)
	s.must(0, "index", "--index", "night", "--wait")
	s.must(0, "branch", "archive", "--as", "wide", "--set", "shortening.threshold=200")
	s.must(0, "index", "--index", "wide", "--wait")
	for n := range 8 {
		require.NoError(t, os.Remove(filepath.Join(s.corpus, "gated", fmt.Sprintf("quay-%02d.md", n))))
		put("merged", n, 1)
		put("archive/old", 30+n, 1)
	}
	s.must(4, "index", "--index", "gated", "--wait")
	for _, one := range s.run("generations", "--index", "gated")["generations"].([]any) {
		if one := one.(map[string]any); one["state"] == "held" {
			s.generations["gated"] = one["generation"].(string)
		}
	}
	put("night", 2, 1)
	put("night", 21, 1)
	s.stop()
	server.Set(modeltest.Options{Latency: 60 * time.Millisecond, EmbedLatency: 60 * time.Millisecond})
	return s
}

// current describes the generation of an index that is served.
func (i *installation) current(index string) map[string]any {
	for _, one := range i.run("generations", "--index", index)["generations"].([]any) {
		if one := one.(map[string]any); one["state"] == "current" {
			return one
		}
	}
	return nil
}

// outcome is what an operation came to.
type outcome struct {
	hashes  string
	replies []reply
	paid    int64 // answers
	texts   int64 // embedded
}

func (o outcome) equals(other outcome) bool {
	return o.hashes == other.hashes && slices.Equal(o.replies, other.replies)
}

func (s *site) outcome(i *installation, index string) (o outcome) {
	stats := s.server.Stats()
	o.paid, o.texts = stats.Chat-stats.Probes, stats.Texts
	current := i.current(index)
	o.hashes = fmt.Sprint(current["content_hash"], current["text_hash"], current["vector_hash"])
	o.replies = i.replies(index)
	return o
}

// do runs the commands of an operation until the context ends, and returns what they print.
func (s *site) do(ctx context.Context, i *installation, o operation) (said string) {
	for _, line := range o.commands {
		args := strings.Fields(strings.ReplaceAll(line, "GEN", s.generations[o.index]))
		command := exec.CommandContext(ctx, filepath.Join(bin, "unweaver"), args...)
		command.Env = i.env
		raw, err := command.CombinedOutput()
		said += fmt.Sprintf("$ %s\n%s(%v)\n", strings.Join(args, " "), raw, err)
	}
	return said
}

// killed is one trial.
type killed struct {
	operation   string
	after, of   time.Duration // the start of the operation; how long an undisturbed one took
	paid, texts int64         // beside what an undisturbed one paid
	asked       int           // how often the commands were given after the restart
	equal       bool
	again       time.Duration // from the restart to the end
}

// killAmid runs one trial: it kills an operation after a while, and gives its commands again.
func (s *site) killAmid(o operation, calm outcome, took, after time.Duration, at string) (k killed, said string) {
	k = killed{operation: o.name, after: after, of: took}
	i := s.on(at)
	defer func() { _ = os.RemoveAll(at) }()
	copyFolder(s.t, s.data, at)
	s.server.Reset()
	i.start()
	defer func() { i.kill() }()
	ctx, cancel := context.WithTimeout(s.t.Context(), after)
	defer cancel()
	_ = s.do(ctx, i, o)
	<-ctx.Done()
	i.kill()
	begun := time.Now()
	i.start()
	for ; !k.equal && k.asked < 5; k.asked++ {
		said += s.do(s.t.Context(), i, o)
		got := s.outcome(i, o.index)
		if k.equal = got.equals(calm); !k.equal {
			said += got.hashes + "\n"
		}
		if k.asked == 0 {
			k.paid, k.texts = got.paid-calm.paid, got.texts-calm.texts
		}
	}
	k.again = time.Since(begun)
	return k, said
}

// Any operation is killed at a random moment, as kill -9 does; given again after the restart it comes to the hashes and
// answers of an undisturbed one, and pays for no more than what was in flight.
// Promises: 1.
func TestAnyOperationThatIsKilledEndsAsIfUndisturbed(t *testing.T) {
	longtest.Nightly(t)
	var building sync.Mutex
	inLanes(t, 2, 0, len(operations), func(t *testing.T) func(int) {
		s := newSite(t, &building)
		return func(n int) { s.killEach(operations[n], rand.New(rand.NewPCG(*seed, uint64(n))), *kills) }
	})
}

func (s *site) killEach(o operation, random *rand.Rand, times int) {
	at := s.data + ".calm"
	i := s.on(at)
	copyFolder(s.t, s.data, at)
	s.server.Reset()
	i.start()
	begun := time.Now()
	said := s.do(s.t.Context(), i, o)
	took := time.Since(begun)
	calm := s.outcome(i, o.index)
	i.kill()
	_ = os.RemoveAll(at)
	s.t.Logf("%s, undisturbed: %s, %d answers, %d texts", o.name, took, calm.paid, calm.texts)
	assert.True(s.t, !strings.Contains(said, "exit status") || strings.Contains(said, "exit status 3"),
		"%s, undisturbed: %s", o.name, said)
	for n := range times {
		k, said := s.killAmid(o, calm, took, time.Duration(random.Int64N(int64(took))), fmt.Sprintf("%s.%d", s.data, n))
		s.t.Logf("%+v", k)
		assert.True(s.t, k.equal && k.paid <= inFlight && k.texts <= inFlight*256, "seed %d, %s, kill %d: %+v, want %s: %s",
			*seed, o.name, n, k, calm.hashes, said)
	}
}
