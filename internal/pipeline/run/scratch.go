package run

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/audit"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Scratch is the folder of a run. Its name holds the run's fence, so that a run that lost its lease writes where no run
// looks.
type Scratch struct {
	Store  blob.Store
	Prefix string
}

func fenceName(fence int64) string { return strconv.FormatInt(fence, 10) }

// File is a JSON file of a run that holds a T. A unit writes its file when it is finished: a unit with a file is never
// done again.
type File[T any] string

// The files that a run has once.
const (
	PlanFile       File[Plan]          = "build.json"
	ShardsFile     File[Shards]        = "shards.json"
	FrozenFile     File[Frozen]        = "models.json"
	PartitionsFile File[Partitions]    = "partitions.json"
	ManifestFile   File[core.Manifest] = "manifest.json"  // as it is checked
	FinalFile      File[core.Manifest] = "final.json"     // as it is published, with all that was paid
	ReadBackFile   File[[]Damage]      = "read_back.json" // what was damaged when the generation was read back
	HeldFile       File[Failure]       = "held.json"      // why the generation is held
	ProbesFile     File[core.Probed]   = "probes.json"
	BatchingFile   File[BatchForm]     = "batching.json"
	BatchesFile    File[Batched]       = "batches.json"
	PreflightFile  File[Preflighted]   = "preflight.json"
	StoresFile     File[Proven]        = "stores.json"
	RepairFile     File[[]Part]        = "parts.json" // what a restore or a repair checks
	AuditPlanFile  File[AuditPlan]     = "audit.json"
	AuditFile      File[core.Audit]    = "found.json"
)

// The files of units of work, by their numbers.
var (
	ChunkFile   = numberFiles[chunk.Result]("chunk-%05d.json")        // documents that were cut into chunks
	SealFile    = numberFiles[extract.SealResult]("sealed-%05d.json") // a shard whose extractions are all there
	ReduceFile  = numberFiles[reduce.Result]("reduced-%03d.json")     // a partition whose mentions were made classes
	ShortenFile = numberFiles[shorten.Result]("short-%03d.json")      // a partition whose class texts were shortened
	EmbedFile   = numberFiles[embed.Result]("embedded-%05d.json")     // a partition or shard that was embedded
	EnrichFile  = numberFiles[struct{}]("enrich-%05d.json")           // chunks for which enrichments were paid
	PieceFile   = numberFiles[Piece]("piece-%05d.json")               // a split or a class run that was written
	LoadFile    = numberFiles[load.Result]("loaded-%05d.json")        // a partition or shard that stores have
	VerifyFile  = numberFiles[verify.Result]("verified-%05d.json")    // one that was checked in the stores
	DamageFile  = numberFiles[Damage]("damage-%05d.json")             // what a restore found damaged in a part
	AuditedFile = numberFiles[audit.Result]("audited-%05d.json")      // a unit of an audit
)

func numberFiles[T any](format string) func(number int) File[T] {
	return func(number int) File[T] { return File[T](fmt.Sprintf(format, number)) }
}

// ExtractFile returns the file of a batch of chunks of a shard that was extracted.
func ExtractFile(shard, batch int) File[extract.Result] {
	return File[extract.Result](fmt.Sprintf("extract-%05d-%05d.json", shard, batch))
}

// ImportState returns the file in which an import of a kind of vectors keeps how far it came.
func ImportState(kind string) string { return "import-" + kind + ".json" }

// Key returns where a file of the run lies.
func (s Scratch) Key(name string) string { return s.Prefix + "/" + name }

// Read reads the file.
func (f File[T]) Read(ctx context.Context, scratch Scratch) (T, error) {
	var value T
	_, err := blob.ReadJSON(ctx, scratch.Store, scratch.Key(string(f)), &value)
	return value, err
}

// Find does what Read does, for a file that may not be there.
func (f File[T]) Find(ctx context.Context, scratch Scratch) (value T, found bool, err error) {
	value, err = f.Read(ctx, scratch)
	if fault.Is(err, fault.NotFound) {
		return value, false, nil
	}
	return value, err == nil, err
}

// ReadEach reads the files of units below n, side by side, and gives them in their order.
func ReadEach[T any](ctx context.Context, r *Run, n int, file func(unit int) File[T]) iter.Seq2[T, error] {
	return EachOf(ctx, r, Span{0, n}, file)
}

// EachOf yields the values of a file for the units of a span.
func EachOf[T any](ctx context.Context, r *Run, of Span, file func(unit int) File[T]) iter.Seq2[T, error] {
	return parallel.MapOrdered(ctx, readWidth, parallel.Numbers(of.Count()), func(ctx context.Context, n int) (T, error) {
		return file(of.From+n).Read(ctx, r.Scratch)
	})
}

// readWidth is how many small files of a run are read at once.
const readWidth = 32

// ReadKept does what Read does, for a file that once wrote: those never change, so each process reads one once, however
// many units of work begin with it. What is given is shared: do not write to it.
func ReadKept[T any](ctx context.Context, r *Run, file File[T]) (T, error) {
	key := r.Scratch.Key(string(file))
	if value, ok := r.Kept.Get(key); ok {
		return value.(T), nil //nolint:forcetypeassert // the name of a file says of what type it is
	}
	value, err := file.Read(ctx, r.Scratch)
	if err == nil {
		r.Kept.Put(key, value)
	}
	return value, err
}

// keptFiles is the memory of a process for files of its runs. Once it is full, it begins at nothing.
type keptFiles struct {
	mu     sync.Mutex
	values map[string]any
}

// mostKept is how many files are kept: a few of each run, and those of its units that are in work.
const mostKept = 256

func (k *keptFiles) Get(key string) (any, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, ok := k.values[key]
	return value, ok
}

func (k *keptFiles) Put(key string, value any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.values)%mostKept == 0 {
		k.values = map[string]any{}
	}
	k.values[key] = value
}

// Write writes the file.
func (f File[T]) Write(ctx context.Context, scratch Scratch, value T) error {
	_, err := blob.WriteJSON(ctx, scratch.Store, scratch.Key(string(f)), value, blob.Cond{})
	return err
}

// Remove deletes the folder.
func (s Scratch) Remove(ctx context.Context) error {
	var keys []string
	for info, err := range s.Store.List(ctx, s.Prefix+"/", "") {
		if err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	return artifact.DeleteAll(ctx, s.Store, keys)
}

// MakeOnce gives what the file holds, or makes it and writes it. Where another attempt that lives on wrote it
// meanwhile, that is what holds, and is given: what has begun may rest on it, and it names files of its own
// (artifact.PutScratch).
func MakeOnce[T any](ctx context.Context, r *Run, file File[T], do func(context.Context) (T, error)) (T, error) {
	value, found, err := file.Find(ctx, r.Scratch)
	if found || err != nil {
		return value, err
	}
	if value, err = do(ctx); err != nil {
		return value, err
	}
	_, err = blob.WriteJSON(ctx, r.Scratch.Store, r.Scratch.Key(string(file)), value, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return file.Read(ctx, r.Scratch)
	}
	return value, err
}
