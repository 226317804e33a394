package build

import (
	"context"
	"fmt"
	"strconv"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/embed"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/shorten"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Scratch is the folder of a run. Its name holds the run's fence, so that a run that lost its lease writes where nobody
// looks.
type Scratch struct {
	Store  blob.Store
	Prefix string
}

func fenceName(fence int64) string { return strconv.FormatInt(fence, 10) }

// File is a JSON file of a run that holds a T. A unit writes its file when it is finished: a unit with a file is never
// done again.
type File[T any] string

// The files of a run that are one of a kind.
const (
	planFile       File[Plan]            = "build.json"
	shardsFile     File[Shards]          = "shards.json"
	frozenFile     File[Frozen]          = "models.json"
	partitionsFile File[Partitions]      = "partitions.json"
	manifestFile   File[corpus.Manifest] = "manifest.json"
	finalFile      File[corpus.Manifest] = "final.json"
	readBackFile   File[[]Damage]        = "read_back.json"
	heldFile       File[Failure]         = "held.json"
	preflightFile  File[Preflighted]     = "preflight.json"
	storesFile     File[Proven]          = "stores.json"
	repairFile     File[[]Part]          = "parts.json"
)

func chunkFile(unit int) File[chunk.Result] { return numbered[chunk.Result]("chunk-%05d.json", unit) }

func sealFile(shard int) File[extract.SealResult] {
	return numbered[extract.SealResult]("sealed-%05d.json", shard)
}

func reduceFile(part int) File[reduce.Result] {
	return numbered[reduce.Result]("reduced-%03d.json", part)
}

func shortenFile(part int) File[shorten.Result] {
	return numbered[shorten.Result]("short-%03d.json", part)
}

func embedFile(part int) File[embed.Result] {
	return numbered[embed.Result]("embedded-%05d.json", part)
}

func loadFile(part int) File[load.Result] { return numbered[load.Result]("loaded-%05d.json", part) }

func verifyFile(part int) File[verify.Result] {
	return numbered[verify.Result]("verified-%05d.json", part)
}

func damageFile(part int) File[Damage] { return numbered[Damage]("damage-%05d.json", part) }

func extractFile(shard, batch int) File[extract.Result] {
	return numbered[extract.Result]("extract-%05d-%05d.json", shard, batch)
}

// importState is the file in which an import of a kind of vectors keeps how far it came.
func importState(kind string) string { return "import-" + kind + ".json" }

func numbered[T any](format string, numbers ...any) File[T] {
	return File[T](fmt.Sprintf(format, numbers...))
}

// Key is where a file of the run lies.
func (s Scratch) Key(name string) string { return s.Prefix + "/" + name }

// Read reads the file.
func (f File[T]) Read(ctx context.Context, scratch Scratch) (T, error) {
	var value T
	_, err := blob.ReadJSON(ctx, scratch.Store, scratch.Key(string(f)), &value)
	return value, err
}

// Find is Read for a file that may not be there.
func (f File[T]) Find(ctx context.Context, scratch Scratch) (value T, found bool, err error) {
	value, err = f.Read(ctx, scratch)
	if fault.Is(err, fault.NotFound) {
		return value, false, nil
	}
	return value, err == nil, err
}

// Write writes the file.
func (f File[T]) Write(ctx context.Context, scratch Scratch, value T) error {
	_, err := blob.WriteJSON(ctx, scratch.Store, scratch.Key(string(f)), value, blob.Cond{})
	return err
}

// remove deletes the folder.
func (s Scratch) remove(ctx context.Context) error {
	var keys []string
	for info, err := range s.Store.List(ctx, s.Prefix+"/", "") {
		if err != nil {
			return err
		}
		keys = append(keys, info.Key)
	}
	return artifact.DeleteAll(ctx, s.Store, keys)
}

// once gives what the file holds, or makes it and writes it.
func once[T any](ctx context.Context, r *Run, file File[T], do func(context.Context) (T, error)) (T, error) {
	value, found, err := file.Find(ctx, r.Scratch)
	if found || err != nil {
		return value, err
	}
	if value, err = do(ctx); err != nil {
		return value, err
	}
	return value, file.Write(ctx, r.Scratch, value)
}
