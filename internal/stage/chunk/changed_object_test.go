package chunk_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

var everything = blob.All

func put(r *run, key string, raw []byte) {
	r.t.Helper()
	stagetest.Must(r.art.Store.Put(r.t.Context(), key, bytes.NewReader(raw), int64(len(raw)), blob.Cond{}))
}

// A document that changed since it was planned is indexed as it is now.
func TestADocumentThatChangedSincePlanIsTakenAsItIs(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "first", "b.txt": "other"})
	units := r.plan().Units
	r.corpus.Set("a.txt", "second, and longer")
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	a := r.documents(res)["a.txt"]
	now, err := r.corpus.Stat(t.Context(), "a.txt")
	if err != nil || a.Problem != "" || a.Version != versionOf("second, and longer") || a.ETag != now.ETag ||
		a.Size != now.Size || r.text(res, "a.txt", a, 0, -1) != "second, and longer" || res.ProblemCount != 0 {
		t.Errorf("%+v, %+v", a, res)
	}
}

func versionOf(text string) core.Digest { return sha256.Sum256([]byte(text)) }

// A file whose content changed behind the back of its ETag is seen by its bytes.
// Promises: 58.
func TestBytesThatAreNotThoseOfPlanAreSeen(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "first", "b.txt": "other"})
	units := r.plan().Units
	r.corpus.Forge("a.txt", "2nd!!")
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	if a := r.documents(res)["a.txt"]; a.Version != versionOf("2nd!!") || r.text(res, "a.txt", a, 0, -1) != "2nd!!" {
		t.Errorf("the text is served under the version %s", a.Version)
	}
}

// A document that is written to whenever it is read is not indexed half: what it was is kept, and where there was
// nothing, nothing is.
func TestADocumentThatNeverRestsKeepsWhatItWas(t *testing.T) {
	for name, restless := range map[string]func(*run, func(string)){
		"when it is opened": func(r *run, write func(string)) { r.corpus.Touched = write },
		"while it is read":  func(r *run, write func(string)) { r.corpus.Torn = write },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, map[string]string{"log.txt": "quiet " + long, "b.txt": "other"})
			before := r.documents(r.night())["log.txt"]
			r.corpus.Set("log.txt", "written to 0")
			r.corpus.Set("new.txt", "written to 0")
			units := r.plan().Units
			var writes atomic.Int64
			restless(r, func(key string) {
				if key != "b.txt" {
					r.corpus.Set(key, fmt.Sprintf("written to %d %s", writes.Add(1), strings.Repeat("word ", 200)))
				}
			})
			res := stagetest.Must(r.chunk(t.Context(), 0, units))
			documents := r.documents(res)
			log, fresh := documents["log.txt"], documents["new.txt"]
			if !log.Stale || log.Problem != string(fault.DocumentChanged) || log.Version != before.Version ||
				fmt.Sprint(log.Chunks) != fmt.Sprint(before.Chunks) {
				t.Errorf("%+v", log)
			}
			assert.True(t, fresh.Problem == string(fault.DocumentChanged) && len(fresh.Chunks) == 0 && !fresh.Stale,
				"%+v", fresh)
			reads := r.corpus.Reads("log.txt")
			assert.True(t, reads >= 4 && res.Failed == 2 && res.Counts.Stale == 1, "read %d times, %+v", reads, res)
		})
	}
}

// A document that comes to rest is indexed in its last version.
func TestADocumentThatComesToRestIsIndexed(t *testing.T) {
	r := newRun(t, map[string]string{"log.txt": "quiet"})
	units := r.plan().Units
	writes := 0
	r.corpus.Torn = func(key string) {
		if writes++; writes <= 2 {
			r.corpus.Set(key, fmt.Sprintf("line %d", writes))
		}
	}
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	log := r.documents(res)["log.txt"]
	assert.True(t, log.Problem == "" && log.Version == versionOf("line 2") && len(log.Chunks) == 1, "%+v", log)
}

// A read that mixes two versions under one ETag is not served: the bytes are not those of plan, so they are read again.
// Promises: 58.
func TestATornReadIsReadAgain(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "first"})
	units := r.plan().Units
	reads := 0
	r.corpus.Touched = func(key string) {
		if reads++; reads == 1 {
			r.corpus.Forge(key, "fi2nd")
		} else {
			r.corpus.Forge(key, "first")
		}
	}
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	if a := r.documents(res)["a.txt"]; a.Version != versionOf("first") || r.text(res, "a.txt", a, 0, -1) != "first" ||
		reads != 2 {
		t.Errorf("read %d times, served under %s", reads, a.Version)
	}
}

// Where a store gives bytes of one version under an ETag, a first build reads each object once, and the night after has
// versions of all to compare with: of broken ones, empty ones and those that are too large also.
func TestAFirstBuildReadsEveryObjectOnce(t *testing.T) {
	objects := map[string]string{
		"a.txt": "Some text.", "blank.txt": " ", "broken.pdf": "no pdf", "large.md": strings.Repeat("word ", 300),
	}
	r := newRun(t, objects)
	r.corpus.OneVersion = true
	r.limits.Text = 1000
	res := r.night()
	require.True(t, res.Counts.Documents == 1 && res.Empty == 1 && res.Failed == 2, "%+v", res)
	documents := r.documents(res)
	for key, content := range objects {
		assert.Equal(t, 1, r.corpus.Reads(key), "%s was read", key)
		assert.Equal(t, versionOf(content), documents[key].Version, "%s has version", key)
	}
	again := r.plan()
	assert.True(t, again.Unchanged && r.corpus.Reads("large.md") == 0, "the night after: %+v", again)
	r.corpus.Touch("large.md", "other")
	if again := r.plan(); !again.Unchanged || r.corpus.Reads("large.md") != 1 {
		t.Errorf("the same bytes under another ETag: %+v", again)
	}
}
