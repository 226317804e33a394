package neural

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// Embedder embeds passages, and questions by what Questions gives.
type Embedder struct {
	model     Model
	directory string // of weights
	prefix    string
	asks      bool // embeds questions
	loaded    *loaded
}

var _ model.Embedder = Embedder{}

// loaded is a model in memory.
type loaded struct {
	encoder *encoder
	words   tokenizer
	spaces  sync.Pool
}

// cores are the places for encoding in this process, whatever the number of models and requests.
var cores = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))

// turns are the places for requests: one after the other is done, and kept, while the rest wait. With two, no core
// waits for the end of a request.
var turns = make(chan struct{}, 2)

var (
	openMu sync.Mutex
	opened = map[string]*loaded{}
)

// Open loads a model from a directory of weights, once a process, and checks its files.
func Open(name, directory string) (Embedder, error) {
	m, ok := Find(name)
	if !ok {
		return Embedder{}, newUnknownFault(name)
	}
	openMu.Lock()
	defer openMu.Unlock()
	key := m.Identity() + " " + directory
	one := opened[key]
	if one == nil {
		var err error
		if one, err = m.loadWeights(directory); err != nil {
			return Embedder{}, err
		}
		opened[key] = one
	}
	return Embedder{model: m, directory: directory, prefix: m.passage, loaded: one}, nil
}

// Describe returns a model that says what it is and cannot embed; its weights need not be in the directory.
func Describe(name, directory string) (Embedder, error) {
	m, ok := Find(name)
	if !ok {
		return Embedder{}, newUnknownFault(name)
	}
	return Embedder{model: m, directory: directory}, nil
}

// Speed measures how many tokens a second this machine embeds with all its cores, by a probe of some tenths of a
// second. Tokens are those of estimates, four bytes each. It fails where there are no weights.
func (e Embedder) Speed(ctx context.Context) (float64, error) {
	e, err := Open(e.model.Name, e.directory)
	if err != nil {
		return 0, err
	}
	text := strings.Repeat("The committee of the northern river towns met in spring. ", 8)
	texts := slices.Repeat([]string{text}, 4*cap(cores))
	if _, _, err := e.Embed(ctx, texts[:1]); err != nil { // memory is taken once
		return 0, err
	}
	begun := time.Now()
	if _, _, err := e.Embed(ctx, texts); err != nil {
		return 0, err
	}
	return float64(len(texts)*len(text)/4) / time.Since(begun).Seconds(), nil
}

func (m Model) loadWeights(directory string) (*loaded, error) {
	fail := func(name string, err error) error {
		return fault.BadConfig.At("open weights of built-in model "+m.Name, name).Because(err).Advise(m.advisePull(directory))
	}
	var files [][]byte
	for _, file := range m.Files {
		name := filepath.Join(directory, m.Name, file.Name)
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fail(name, err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != file.SHA256 {
			return nil, fail(name, newDamageError(hex.EncodeToString(sum[:]), file))
		}
		files = append(files, data)
	}
	one, err := m.readFiles(files)
	if err != nil {
		return nil, fail(filepath.Join(directory, m.Name), err)
	}
	return one, nil
}

func newDamageError(sum string, file File) error {
	return fmt.Errorf("it is damaged or belongs to another model: its sha256 is %s, not %s", sum, file.SHA256)
}

// readFiles makes a model of its files.
func (m Model) readFiles(files [][]byte) (*loaded, error) {
	one := &loaded{}
	one.spaces.New = func() any { return &space{} }
	if len(files) == 1 {
		var err error
		if one.encoder, one.words, err = readE5(files[0]); err != nil {
			return nil, err
		}
	} else {
		words, err := readWordPiece(files[1], m.limit)
		if err != nil {
			return nil, err
		}
		if one.encoder, err = readBERT(files[0], words); err != nil {
			return nil, err
		}
		one.words = words
	}
	if one.encoder.hidden != m.Dimension {
		return nil, fmt.Errorf("they produce vectors of dimension %d, not %d", one.encoder.hidden, m.Dimension)
	}
	return one, nil
}

// Info implements model.Embedder. What was embedded goes through the ledger, since it took long.
func (e Embedder) Info() model.Info {
	return model.Info{Provider: model.Neural, Model: e.model.Identity(), Paid: true}
}

// Dimension implements model.Embedder.
func (e Embedder) Dimension() int { return e.model.Dimension }

// Questions implements model.Asker.
func (e Embedder) Questions() model.Embedder {
	e.prefix, e.asks = e.model.question, true
	return e
}

// together is how many tokens are encoded at once by a core: enough to use each weight often.
const together = 384

// Embed implements model.Embedder. Texts that are longer than the model takes are cut; the empty text has a vector.
// Texts of like length go together, on all cores that are free.
func (e Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	if e.loaded == nil {
		return nil, model.Usage{}, fault.Internal.At("embed by", e.model.Name).Because("an estimate embeds nothing")
	}
	type item struct {
		at  int
		ids []int32
	}
	if err := e.takePlace(ctx, turns); err != nil {
		return nil, model.Usage{}, err
	}
	defer e.freePlace(turns)
	items := make([]item, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, model.Usage{}, err
		}
		if !utf8.ValidString(text) {
			return nil, model.Usage{}, fault.ModelRejected.At("embed", fmt.Sprintf("text %d", i)).
				Because(errors.New("it is not UTF-8"))
		}
		items[i] = item{i, e.loaded.words.tokensOf(e.prefix + text)}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(len(b.ids), len(a.ids)) })
	out := make([][]float32, len(texts))
	var usage model.Usage
	group, ctx := errgroup.WithContext(ctx)
	for len(items) > 0 {
		n, tokens := 0, 0
		for n < len(items) && (n == 0 || tokens+len(items[n].ids) <= together) {
			tokens += len(items[n].ids)
			n++
		}
		batch := items[:n]
		items = items[n:]
		usage.Prompt += int64(tokens)
		if err := e.takePlace(ctx, cores); err != nil {
			return nil, model.Usage{}, errors.Join(group.Wait(), err)
		}
		group.Go(func() error {
			defer e.freePlace(cores)
			memory, _ := e.loaded.spaces.Get().(*space)
			defer e.loaded.spaces.Put(memory)
			ids := make([][]int32, len(batch))
			for i := range batch {
				ids[i] = batch[i].ids
			}
			for i, vector := range e.loaded.encoder.encodeTexts(memory, ids) {
				out[batch[i].at] = vector
			}
			model.ReportProgress(ctx, len(batch))
			return ctx.Err()
		})
	}
	return out, usage, group.Wait()
}

// takePlace waits for a place, with a sign of life each second. A question waits for none: it is short, and somebody
// waits for it while many passages are embedded.
func (e Embedder) takePlace(ctx context.Context, places chan struct{}) error {
	model.SignOfLife(ctx)
	if e.asks {
		return ctx.Err()
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case places <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			model.SignOfLife(ctx)
		}
	}
}

func (e Embedder) freePlace(places chan struct{}) {
	if !e.asks {
		<-places
	}
}
