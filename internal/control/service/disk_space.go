package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

const (
	// needAlways is the temporary room of any build: units of work that are sorted outside of memory.
	needAlways = 256 << 20
	// needCopies is how often the mapped files of a generation lie there at once: as they are gathered, as they are
	// written, and those of the generation before.
	needCopies = 3
	// needChunk is what the mapped files take of a chunk (docs/benchmarks.md: 2.5 to 4 KB), for the advice about an
	// index that is not built yet.
	needChunk = 4 << 10
)

// temporaryNeed estimates how many bytes the next build of an index writes to its worker's temporary folder at once;
// nil: it was not built yet, and the need is what an empty one has.
func temporaryNeed(manifest *core.Manifest) int64 {
	need := int64(needAlways)
	if manifest == nil {
		return need
	}
	for _, segment := range manifest.Segments.IDF {
		need += needCopies * segment.Bytes
	}
	return need
}

// probeTemporary writes to the temporary folder of this process, and compares what it has with what a build needs.
// Workers of a cluster have folders of their own, which need as much.
func probeTemporary(ctx context.Context, artifacts blob.Store, name string) (string, error) {
	file, err := scratch.CreateFile()
	if err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", scratch.FullError("close a temporary file", err)
	}
	space, err := scratch.ReadRoom()
	if err != nil {
		return "", err
	}
	return judgeSpace(space, name, publishedManifest(ctx, artifacts, name))
}

// probeDisks compares what each file system of the stores' folders has free with what a build may write there: every
// file of the published generation once more.
func probeDisks(folders []string, manifest *core.Manifest) (string, error) {
	need := int64(needAlways)
	if manifest != nil {
		for _, segment := range manifest.Segments.All() {
			need += segment.Bytes
		}
	}
	wanted := "; a build may write about " + core.FormatSize(need)
	var text []string
	seen := map[uint64]bool{}
	for _, folder := range folders {
		space, err := scratch.RoomOf(folder)
		if err != nil {
			return "", err
		}
		free := fmt.Sprintf("%s has %s free", folder, core.FormatSize(space.Free))
		if space.Free < need {
			return "", fault.StoreFull.At("find room in", folder).Because(free + wanted).
				Advise("free disk space: a build waits where a disk is full")
		}
		if !seen[space.Device] {
			text = append(text, free)
		}
		seen[space.Device] = true
	}
	return strings.Join(text, ", ") + wanted, nil
}

// publishedManifest returns the manifest of an index; nil where there is none, or where it cannot be read, as another
// probe reports.
func publishedManifest(ctx context.Context, artifacts blob.Store, name string) *core.Manifest {
	if !core.ValidIndex(name) {
		return nil
	}
	index := artifact.Index{Store: artifacts, Name: name}
	pointer, _, err := index.ReadPointer(ctx)
	if err != nil || pointer.Manifest == "" {
		return nil
	}
	manifest, err := index.ManifestOf(ctx, pointer)
	if err != nil {
		return nil
	}
	return manifest
}

func judgeSpace(space scratch.Space, name string, manifest *core.Manifest) (string, error) {
	need := temporaryNeed(manifest)
	wanted := fmt.Sprintf("a build of %s needs about %s", name, core.FormatSize(need))
	if manifest == nil {
		wanted = fmt.Sprintf("a first build needs about %s and %s a million passages",
			core.FormatSize(need), core.FormatSize(needCopies*needChunk*1_000_000))
	}
	kind := ""
	if space.Memory {
		kind = ", in memory (a tmpfs)"
	}
	text := fmt.Sprintf(
		"%s has %s free%s; %s, there and in each worker's", space.Folder, core.FormatSize(space.Free), kind, wanted,
	)
	if space.Free >= need {
		return text, nil
	}
	advice := "free space there, or name another folder: --data-dir of unweaver dev, worker.cache_dir or " +
		"UNWEAVER_CACHE_DIR of the other programs"
	if space.Memory {
		advice = "put the folder on a disk: worker.cache_dir or UNWEAVER_CACHE_DIR, in a container a volume"
	}
	return "", fault.StoreFull.At("find temporary room in", space.Folder).Because(text).Advise(advice)
}
