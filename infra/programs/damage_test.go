package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var (
	seed   = flag.Uint64("seed", 1, "of damages and kills")
	trials = flag.Int("trials", 300, "how many damages")
	from   = flag.Int("from", 0, "the first damage to do")
	only   = flag.Int("only", -1, "the one damage, or kill, to do")
)

const enrichedSettings = `
models:
  chat: {provider: openai, model: chat, base_url: "%[1]s", api_key_env: E2E_KEY}
  embedding: {provider: openai, model: embedding, base_url: "%[1]s", api_key_env: E2E_KEY}
  limits: {concurrency: 4}
indexes:
  docs: {corpus: "%[2]s", enrich: [gem, facts, aliases], schedule: {cron: "0 3 1 1 *"}}
`

// questions are asked by every method.
var questions = func() (all []map[string]any) {
	methods := "hybrid hybrid hybrid unweaver unweaver ppr aligned vector vector bm25 gem apr"
	for n, method := range strings.Fields(methods) {
		all = append(all, map[string]any{"method": method, "query": []string{
			"Who built the quay of Port Verin?", "Barrow Keld 3 salt copper", "Dora Sanz lived near quay 7",
		}[n%3]})
	}
	return all
}()

// quay returns document n of a corpus, as it is in a night.
func quay(n, night int) (name, text string) {
	return fmt.Sprintf("quay-%02d.md", n), fmt.Sprintf("# Quay %d\n\nThe quay of Port Verin was built in 18%02d by Dora "+
		"Sanz. Dora Sanz lived in Barrow Keld %d. Port Verin sold salt and copper to Barrow Keld %d.\n"+
		strings.Repeat("The tide of Ossum was measured there.\n", night), n, n+10, n%5, n%3)
}

type reply struct {
	status   int // 0: no answer
	degraded bool
	body     string // without what may differ between two answers that say the same
}

// generationName is the name that a build gives its generation: when it began.
var generationName = regexp.MustCompile(`\b\d{8}t\d{6}z(-\d+)?\b`)

func (i *installation) replies(index string) (all []reply) {
	for _, question := range questions {
		raw, _ := json.Marshal(question)
		client := http.Client{Timeout: 5 * time.Minute}
		response, err := client.Post(i.http+"/v1/indexes/"+index+"/query", "application/json", bytes.NewReader(raw))
		if err != nil {
			all = append(all, reply{body: err.Error()})
			continue
		}
		var out map[string]any
		err = json.NewDecoder(response.Body).Decode(&out)
		_ = response.Body.Close()
		degraded, _ := out["degraded"].([]any)
		for _, differs := range []string{"timings_ms", "usage", "generation", "release", "request_id", "degraded"} {
			delete(out, differs)
		}
		raw, _ = json.Marshal(out)
		if err != nil {
			raw = []byte(err.Error())
		}
		raw = generationName.ReplaceAll(raw, []byte("GEN")) // errors name it in their texts
		all = append(all, reply{response.StatusCode, len(degraded) > 0, string(raw)})
	}
	return all
}

func (i *installation) say(args ...string) (string, int) {
	ctx, cancel := context.WithTimeout(i.t.Context(), 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(bin, "unweaver"), args...)
	command.Env = i.env
	raw, err := command.CombinedOutput()
	if busy.Match(raw) {
		return i.say(args...)
	}
	said := fmt.Sprintf("$ %s\n%s", strings.Join(args, " "), raw)
	if err != nil && command.ProcessState == nil {
		return said + err.Error(), -1
	}
	return said, command.ProcessState.ExitCode()
}

func (i *installation) must(code int, args ...string) {
	said, got := i.say(args...)
	require.True(i.t, got == code, "exit code %d, want %d: %s", got, code, said)
}

func (i *installation) stop() {
	i.t.Helper()
	_ = syscall.Kill(i.dev.Process.Pid, syscall.SIGINT)
	_ = i.dev.Wait()
	i.dev = nil
}

func copyFolder(t *testing.T, from, to string) {
	out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
	require.True(t, err == nil, "%v: %s", err, out)
}

// kindsOf lists the files of a data directory by kind. A segment's kind is what manifests list it as.
func kindsOf(t *testing.T, data string) map[string][]string {
	all, segments := map[string][]string{}, map[string]string{}
	files := musttest.Get(filesOf(data))(t)
	for _, file := range files {
		raw, _ := os.ReadFile(filepath.Join(data, file))
		var manifest struct {
			Segments map[string][]struct{ SHA256 string }
		}
		if strings.Contains(file, "/segments/") && json.Unmarshal(raw, &manifest) == nil {
			segments[filepath.Base(file)] = "manifest"
			for kind, list := range manifest.Segments {
				for _, one := range list {
					segments[one.SHA256] = strings.ReplaceAll(kind, "_", " ")
				}
			}
		}
	}
	hex := regexp.MustCompile(`[0-9a-f]{32,}`)
	name := regexp.MustCompile(`uw_\w+|\d{8}t\d{6}z|\d{8,}|/[0-9a-f]{2}/|[a-z]+-\d{8}t[-\w]+`)
	for _, file := range files {
		kind := segments[filepath.Base(file)]
		if kind == "" {
			kind = "`" + name.ReplaceAllString(hex.ReplaceAllString(file, "…"), "…") + "`"
		} else if strings.HasPrefix(file, "cache/") {
			kind = "cached segments"
		} else {
			kind = "segment: " + kind
		}
		all[kind] = append(all[kind], file)
	}
	return all
}

// filesOf lists the files of a data directory that a stopped stack has left, but those of its logs and locks.
func filesOf(data string) (files []string, err error) {
	return files, filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := filepath.Rel(data, path)
		if info, _ := entry.Info(); info.Size() > 0 && !strings.HasSuffix(file, ".log") {
			files = append(files, file)
		}
		return err
	})
}

// harms are what a disk or a hand does to a file: each returns the new bytes, nil for a file that is gone.
var harms = map[string]func(random *rand.Rand, raw, older, other []byte) []byte{
	"flipped": func(random *rand.Rand, raw, _, _ []byte) []byte {
		raw = slices.Clone(raw)
		raw[random.IntN(len(raw))] ^= 1 << random.IntN(8)
		return raw
	},
	"cut":      func(random *rand.Rand, raw, _, _ []byte) []byte { return raw[:random.IntN(len(raw))] },
	"emptied":  func(*rand.Rand, []byte, []byte, []byte) []byte { return []byte{} },
	"deleted":  func(*rand.Rand, []byte, []byte, []byte) []byte { return nil },
	"zeroed":   func(_ *rand.Rand, raw, _, _ []byte) []byte { return make([]byte, len(raw)) },
	"replaced": func(_ *rand.Rand, _, _, other []byte) []byte { return other },
	"older":    func(_ *rand.Rand, _, older, _ []byte) []byte { return older },
}

type damage struct {
	number                         int
	kind, file, harm               string
	live                           bool
	same, degraded, refused, wrong int // answers before the night
	night, audit                   int // exit codes
	healed, left                   bool
	command, trouble               string
	seconds                        float64
}

func (d damage) String() string {
	return fmt.Sprintf("%d %s: %s %s (live %t): same %d, degraded %d, refused %d, wrong %d; "+
		"night %d, audit %d, healed %t, left %t, %q, %.0f s %s", d.number, d.kind, d.file, d.harm, d.live,
		d.same, d.degraded, d.refused, d.wrong, d.night, d.audit, d.healed, d.left, d.command, d.seconds, d.trouble)
}

// judge counts replies, and returns whether all are those of an undamaged index.
func (d *damage) judge(got, want []reply) bool {
	d.same, d.degraded, d.refused, d.wrong = 0, 0, 0, 0
	for n, one := range got {
		switch {
		case one == want[n]:
			d.same++
		case one.status != http.StatusOK:
			d.refused++
		case one.degraded:
			d.degraded++
		default:
			d.wrong++
			at := 0
			for at < min(len(one.body), len(want[n].body)) && one.body[at] == want[n].body[at] {
				at++
			}
			at = max(0, at-100)
			d.trouble += fmt.Sprintf("\nquestion %d: …%.600s\nwant …%.600s", n, one.body[at:], want[n].body[at:])
		}
	}
	return d.same == len(want)
}

// ruin is a data directory to be damaged, what it was a night before, and its answers.
type ruin struct {
	*installation
	older string
	kinds map[string][]string
	want  []reply
}

func newRuin(t *testing.T) *ruin {
	server := modeltest.Start(t, modeltest.Options{Poison: "Zyxpoison"})
	r := &ruin{installation: install(t, server.URL, enrichedSettings)}
	for n := range 24 {
		r.write(quay(n, 0))
	}
	r.write("stone.md", "# Stone\n\nThe Zyxpoison stone of Verin was found by Dora Sanz.\n")
	r.start()
	defer r.kill()
	r.must(3, "index", "--index", "docs", "--wait")
	r.stop()
	r.older = r.data + ".older"
	copyFolder(t, r.data, r.older)
	for n := range 3 {
		r.write(quay(n, 1))
	}
	r.write(quay(30, 1))
	require.NoError(t, os.Remove(filepath.Join(r.corpus, "quay-09.md")))
	r.start()
	r.must(3, "index", "--index", "docs", "--wait")
	r.must(0, "schedule", "apply", "--index", "docs")
	r.want = r.replies("docs")
	r.stop()
	r.start() // a second time, as what is asked first may be distinguished
	for n, again := range r.replies("docs") {
		require.True(t, again == r.want[n] && again.status == http.StatusOK && !again.degraded,
			"question %d is answered by %+v and by %+v", n, again, r.want[n])
	}
	r.stop()
	r.kinds = kindsOf(t, r.data)
	return r
}

// commands finds the commands that a text names to heal what it reports.
var commands = regexp.MustCompile(`unweaver ((?:audit|restore|index)\b[^\n;,:)"` + "`" + `]*)`)

var moved = regexp.MustCompile(`move (.+?) away`)

// of returns the ruin for a subtest.
func (r *ruin) of(t *testing.T) *ruin {
	other, own := *r, *r.installation
	own.t, other.installation = t, &own
	return &other
}

func (r *ruin) try(number int) (d damage) {
	begun, random := time.Now(), rand.New(rand.NewPCG(*seed, uint64(number)))
	kinds := slices.Sorted(maps.Keys(r.kinds))
	d.number, d.kind = number, kinds[(number+int(*seed))%len(kinds)]
	d.file = r.kinds[d.kind][random.IntN(len(r.kinds[d.kind]))]
	d.live = random.IntN(5) == 0
	defer func() { d.seconds = time.Since(begun).Seconds() }()

	i := r.on(fmt.Sprintf("%s.%d", r.data, number))
	defer func() { _ = os.RemoveAll(i.data) }()
	copyFolder(r.t, r.data, i.data)
	path := filepath.Join(i.data, d.file)
	raw, err := os.ReadFile(path)
	require.NoError(r.t, err)
	older, _ := os.ReadFile(filepath.Join(r.older, d.file))
	other, _ := os.ReadFile(filepath.Join(i.data, r.kinds[d.kind][random.IntN(len(r.kinds[d.kind]))]))
	names := slices.Sorted(maps.Keys(harms))
	var harmed []byte
	for harmed = raw; bytes.Equal(harmed, raw) && (harmed != nil); {
		d.harm = names[random.IntN(len(names))]
		if d.harm == "older" && (older == nil || filepath.Base(d.file) == "current.json") { // a backup put back is no damage
			continue
		}
		harmed = harms[d.harm](random, raw, older, other)
	}
	harm := func() {
		if harmed == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, harmed, 0o600)
		}
		require.NoError(r.t, err)
	}

	var said string
	defer i.kill()
	if d.live {
		i.start()
		i.replies("docs")
		harm()
	} else {
		harm()
		if !i.begin() {
			said = r.mendStart(i, &d)
			if d.trouble != "" {
				return d
			}
		}
	}
	d.judge(i.replies("docs"), r.want)
	before := d
	night, code := i.say("index", "--index", "docs", "--wait")
	if d.night = code; code != 0 && code != 3 {
		d.trouble += "\n" + night
	}
	if d.live {
		i.kill()
		if !i.begin() {
			said += r.mendStart(i, &d)
			night, d.night = i.say("index", "--index", "docs", "--wait")
		}
	}
	audit := ""
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, raw) { // else it is as it was
		audit, d.audit = i.say("audit", "--index", "docs", "--wait")
	}
	d.healed = (d.night == 0 || d.night == 3) && d.audit == 0 // by itself, or by the step that its start named
	if same := d.judge(i.replies("docs"), r.want); !same {
		d.healed = false
	}
	said += night + audit
	for _, found := range commands.FindAllStringSubmatch(audit+night+said, -1) {
		if d.healed || d.command != "" && strings.Contains(d.command, found[1]) {
			break
		}
		args := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(found[1], "NAME", "docs"), "'", ""))
		if args[0] != "restore" && !slices.Contains(args, "--wait") {
			args = append(args, "--wait")
		}
		more, code := i.say(args...)
		d.command += strings.Join(args, " ") + "; "
		said += more
		again, clean := i.say("audit", "--index", "docs", "--wait")
		said += again
		if (code == 0 || code == 3) && clean == 0 && d.judge(i.replies("docs"), r.want) {
			d.healed = true
		}
	}
	if !d.healed {
		d.trouble += "\n" + said
	}
	d.same, d.degraded, d.refused, d.wrong = before.same, before.degraded, before.refused, before.wrong
	now, err := os.ReadFile(path)
	d.left = err != nil && harmed == nil || err == nil && harmed != nil && sha256.Sum256(now) == sha256.Sum256(harmed)
	return d
}

// mendStart takes the step that a stack names which does not start, and starts it.
func (r *ruin) mendStart(i *installation, d *damage) (said string) {
	said = i.said
	step := moved.FindStringSubmatch(said)
	if step == nil {
		d.trouble = "it does not start, and names no step: " + said
		return said
	}
	d.command = "(" + step[0] + ") "
	for name := range strings.SplitSeq(step[1], " and ") {
		if name = strings.TrimSpace(name); name == "the file" {
			name = d.file
		}
		if err := os.Remove(filepath.Join(i.data, name)); err != nil {
			d.trouble += err.Error()
		}
	}
	if !i.begin() {
		d.trouble = "it does not start after the step that it names: " + said
	}
	return said
}

// Any file of a data directory is damaged, with the program stopped or at work: no answer is wrong, and the next night
// heals it, or it is reported with the command that does.
// Promises: 49, 83.
func TestAnyDamagedFileIsHealedOrReported(t *testing.T) {
	longtest.Nightly(t)
	r := newRuin(t)
	inLanes(t, 4, *from, *trials, func(t *testing.T) func(int) {
		t.Helper()
		return func(number int) {
			d := r.of(t).try(number)
			t.Log(d)
			assert.True(t, d.wrong <= 0 && d.healed, "seed %d, damage %d: %s", *seed, number, d.file)
		}
	})
}

// inLanes has lanes side by side try the numbers from one on and before another, or -only alone.
func inLanes(t *testing.T, lanes, from, before int, open func(t *testing.T) func(number int)) {
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				find := open(t)
				for number := from + lane; number < before; number += lanes {
					if *only >= 0 && number != *only {
						continue
					}
					find(number)
				}
			})
		}
	})
}
