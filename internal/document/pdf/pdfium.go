package pdf

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// engine is PDFium, compiled from WebAssembly once a process. Each document gets an instance with a memory of its own.
var engine struct {
	once sync.Once
	pool pdfium.Pool
	err  error
}

const (
	// leastMemory is what PDFium begins with, and a little more.
	leastMemory = 32 << 20
	// mostInstances are at work at once in one process.
	mostInstances = 64
)

// Prepare compiles PDFium, so that the first PDF need not wait and no file has to be opened any more. Compiled
// code is kept in the folder cache and read from there, 21 MB in a fifth of a second; with no folder (""), or one that
// cannot be used, it is compiled again, in some seconds and some hundred megabytes. Of the memory that a document may
// take, half is PDFium's: the other is for the file and for its text.
func Prepare(cache string, limits document.Limits) error {
	engine.once.Do(func() {
		memory := max(limits.WithDefaults().Memory/2, leastMemory)
		for try := 0; cache != "" && try < 2; try++ {
			if engine.pool, engine.err = startEngine(cache, memory); engine.err == nil {
				return
			}
			discardCode(cache) // it may be damaged, as by a loss of power
		}
		engine.pool, engine.err = startEngine("", memory)
	})
	return engine.err
}

// discardCode removes compiled code from a folder.
func discardCode(cache string) {
	kept, _ := filepath.Glob(filepath.Join(cache, "wazero-*")) // the pattern is valid
	for _, folder := range kept {
		_ = os.RemoveAll(folder) // what stays cannot be used: it is compiled again
	}
}

// startEngine compiles PDFium, or reads its compiled code. The instances see no file and print nothing.
func startEngine(cache string, memory int64) (pdfium.Pool, error) {
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling)
	if cache != "" {
		kept, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(kept)
	}
	allocate := experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return newLinear(memory) })
	return webassembly.Init(webassembly.Config{
		Context:  experimental.WithMemoryAllocator(context.Background(), allocate),
		MaxTotal: mostInstances, RuntimeConfig: config,
		FSConfig: wazero.NewFSConfig(), Stdout: io.Discard, Stderr: io.Discard, RandomSource: rand.Reader,
	})
}

// CacheFolder returns a folder for compiled code that only this user can write to, as what lies in it is run: the
// user's cache folder, else one for temporary files; "" where there is none.
func CacheFolder() string {
	if base, err := os.UserCacheDir(); err == nil {
		above := filepath.Join(base, "unweaver")
		if folder := filepath.Join(above, "wasm"); isPrivate(above) && isPrivate(folder) && isUsable(folder) {
			return folder
		}
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("unweaver-wasm-%d", os.Geteuid()))
	if isPrivate(folder) && isUsable(folder) {
		return folder
	}
	return ""
}

// isPrivate reports whether a folder, which is made where it is not there, is this user's alone. One that others may
// write to stays unused: code of theirs may lie there.
func isPrivate(folder string) bool {
	return os.MkdirAll(folder, durable.PrivateFolder) == nil && durable.CheckOwn(folder, durable.Owner) == nil &&
		durable.Tighten(folder) == nil
}

// isUsable reports whether compiled code can be kept in a folder, or read from it.
func isUsable(folder string) bool {
	probe, err := os.CreateTemp(folder, "probe-")
	if err != nil { // it may be read where code is in it already
		kept, err := filepath.Glob(filepath.Join(folder, "wazero-*"))
		return err == nil && len(kept) > 0
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name())) == nil
}

// newInstance gives an instance of PDFium for one document. Close it.
func newInstance(limits document.Limits) (pdfium.Pdfium, error) {
	if err := Prepare(CacheFolder(), limits); err != nil {
		return nil, fmt.Errorf("PDFium cannot be compiled: %w", err)
	}
	return engine.pool.GetInstance(time.Minute)
}

// linear is the memory of an instance: room for all that it may take, of which it is given what it asks for. It does
// not move as it grows, and goes back to the system at once.
type linear struct{ room []byte }

// refused counts how often instances were refused more memory than they may take.
var refused atomic.Int64

func newLinear(most int64) *linear {
	room, err := unix.Mmap(-1, 0, int(most), unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return &linear{}
	}
	return &linear{room}
}

// Reallocate implements experimental.LinearMemory; nil refuses.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.room)) || unix.Mprotect(l.room[:size], unix.PROT_READ|unix.PROT_WRITE) != nil {
		refused.Add(1)
		return nil
	}
	return l.room[:size:size]
}

// Free implements experimental.LinearMemory.
func (l *linear) Free() {
	if l.room != nil {
		_ = unix.Munmap(l.room) // it is ours
		l.room = nil
	}
}
