// Package documenttest is a corpus in memory, for tests of the stages that read one: its objects can be changed between
// two runs, and reading any of them can be made to fail.
package documenttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Corpus implements blob.Store for readers.
type Corpus struct {
	mu      sync.Mutex
	objects map[string]object
	reads   map[string]int

	// Open fails a read before it starts, Break in the middle of the content, Unlisted the description of that key.
	Open, Break, Unlisted map[string]error
	// Touched is called with every key that is opened, before it is: it may change objects. Torn is called when one was
	// read to its end, before the reader gets it: where the object is another one by then, the reader gets an error.
	Touched, Torn func(key string)
	// OneVersion makes it a store that gives bytes of one version under an ETag.
	OneVersion bool
	// Tags gives the tags of an object; nil: it has none.
	Tags func(key string) (map[string]string, error)
}

// ReadTags implements blob.Tagged.
func (c *Corpus) ReadTags(_ context.Context, key string) (map[string]string, error) {
	if c.Tags == nil {
		return nil, nil //nolint:nilnil // none is an answer
	}
	return c.Tags(key)
}

// IsVersioned implements blob.Versioned.
func (c *Corpus) IsVersioned() bool { return c.OneVersion }

type object struct {
	content  []byte
	modified time.Time
	etag     string // empty: that of the content
}

var _ blob.Store = (*Corpus)(nil)

// New makes a corpus of keys and contents.
func New(objects map[string]string) *Corpus {
	c := &Corpus{
		objects: map[string]object{}, reads: map[string]int{},
		Open: map[string]error{}, Break: map[string]error{}, Unlisted: map[string]error{},
	}
	for key, content := range objects {
		c.Set(key, content)
	}
	return c
}

// Set adds or changes an object.
func (c *Corpus) Set(key, content string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[key] = object{[]byte(content), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), ""}
}

// Forge changes an object so that its ETag stays as it was: as a file whose size and time are set back.
func (c *Corpus) Forge(key, content string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.objects[key]
	c.objects[key] = object{[]byte(content), was.modified, was.info(key).ETag}
}

// Touch gives an object another ETag without changing it.
func (c *Corpus) Touch(key, etag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := c.objects[key]
	touched.etag = etag
	c.objects[key] = touched
}

// Remove takes an object out.
func (c *Corpus) Remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, key)
}

// Move gives an object another key.
func (c *Corpus) Move(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[to] = c.objects[from]
	delete(c.objects, from)
}

// Reads returns how often an object was opened since the last call for it.
func (c *Corpus) Reads(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.reads[key]
	c.reads[key] = 0
	return n
}

func (o object) info(key string) blob.Info {
	etag := o.etag
	if etag == "" {
		etag = fmt.Sprintf("%x", sha256.Sum256(o.content))[:16]
	}
	return blob.Info{Key: key, Size: int64(len(o.content)), Modified: o.modified, ETag: etag}
}

// Get implements blob.Store.
func (c *Corpus) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	c.mu.Lock()
	c.reads[key]++
	c.mu.Unlock()
	if c.Touched != nil {
		c.Touched(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, blob.Info{}, err
	}
	if err := c.Open[key]; err != nil {
		return nil, blob.Info{}, err
	}
	o, ok := c.objects[key]
	if !ok {
		return nil, blob.Info{}, fault.NotFound.At("read", key)
	}
	info := o.info(key)
	if part.Match != "" && part.Match != info.ETag {
		return nil, info, fault.Precondition.At("read", key).Because("it has changed")
	}
	if err := c.Break[key]; err != nil {
		half := bytes.NewReader(o.content[:len(o.content)/2])
		return io.NopCloser(io.MultiReader(half, iotest.ErrReader(err))), info, nil
	}
	body := io.Reader(bytes.NewReader(o.content))
	if c.Torn != nil && part.Match != "" {
		body = io.MultiReader(body, &end{c, key, info.ETag})
	}
	return io.NopCloser(body), info, nil
}

// end is the end of an object in the version that a reader asked for.
type end struct {
	corpus    *Corpus
	key, etag string
}

func (e *end) Read([]byte) (int, error) {
	e.corpus.Torn(e.key)
	if now, err := e.corpus.Stat(context.Background(), e.key); err != nil || now.ETag != e.etag {
		return 0, fault.Precondition.At("read", e.key).Because("it was written to while it was read")
	}
	return 0, io.EOF
}

// List implements blob.Store.
func (c *Corpus) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return c.ListRange(ctx, prefix, after, "")
}

// ListRange implements blob.Store.
func (c *Corpus) ListRange(_ context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		c.mu.Lock()
		listed := map[string]blob.Info{}
		var keys []string
		for key, o := range c.objects {
			listed[key] = o.info(key)
			keys = append(keys, key)
		}
		c.mu.Unlock()
		slices.Sort(keys)
		for _, key := range keys {
			if !strings.HasPrefix(key, prefix) || key <= after || until != "" && key > until {
				continue
			}
			if !yield(listed[key], c.Unlisted[key]) {
				return
			}
		}
	}
}

// Stat implements blob.Store.
func (c *Corpus) Stat(_ context.Context, key string) (blob.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.objects[key]; ok {
		return o.info(key), nil
	}
	return blob.Info{}, fault.NotFound.At("stat", key)
}

// Put implements blob.Store: nothing may write to a corpus.
func (c *Corpus) Put(context.Context, string, io.Reader, int64, blob.Cond) (blob.Info, error) {
	return blob.Info{}, fault.StoreDenied.At("write", "corpus")
}

// ListFolders implements blob.Store.
func (c *Corpus) ListFolders(ctx context.Context) ([]string, error) {
	return blob.FoldersOf(ctx, c.List)
}

// Delete implements blob.Store: nothing may delete in a corpus.
func (c *Corpus) Delete(context.Context, string) error {
	return fault.StoreDenied.At("delete", "corpus")
}

// DeleteAll implements blob.Store: nothing may delete in a corpus.
func (c *Corpus) DeleteAll(context.Context, []string) error {
	return fault.StoreDenied.At("delete", "corpus")
}

// Location implements blob.Store.
func (c *Corpus) Location(key string) string { return "memory:" + key }
