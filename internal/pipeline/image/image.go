// Package image moves a generation of an index to and from images by the OCI specifications. The files of a generation
// are immutable and named by content, so each is one blob: a second night moves what is new. An image has no paid
// results. What a pull writes is served by the ways of package release.
package image

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Types of an image and its parts. The configuration of an image is the manifest of its generation.
const (
	vendor      = "application/vnd.unweaver."
	Type        = vendor + "index.v1"
	TypeConfig  = vendor + "index.config.v1+json"
	TypeSegment = vendor + "segment.v1"
	typeSpec    = vendor + "spec.v1+json"
	typeProbes  = vendor + "probes.v1"
	typeAliases = vendor + "aliases.v1"
	typeReport  = vendor + "report.v1+json"
	typeLetter  = vendor + "letter.v1+json" // its title is the id of a chunk
)

// singles are files in the folder of a generation, by their type.
var singles = []struct{ kind, name string }{
	{typeReport, "report.json"},
	{vendor + "report.v1+markdown", "report.md"},
	{vendor + "problems.v1+jsonl", plan.ProblemsName},
	{vendor + "watched.v1+jsonl", artifact.WatchedName},
}

// Bounds of what is read into memory, and of files that no manifest gives a size.
const (
	mostManifest = 4 << 20 // registries accept no larger one
	mostConfig   = 1 << 20
	mostTable    = 256 << 20 // the manifest of a generation
	mostFile     = 1 << 30
)

// width is how many blobs move at once.
const width = 8

// Image is one that was read, with its digest pinned.
type Image struct {
	Descriptor ocispec.Descriptor
	Manifest   *core.Manifest
	Signed     bool
	files      []ocispec.Descriptor
	bytes      int64 // of all files
}

// Read finds the image of a place and checks all but its files, and that the owner of the key signed it; nil: any image
// is taken. From then on its digest counts: a tag may move.
func Read(ctx context.Context, place *oci.Place, key *ecdsa.PublicKey) (*Image, error) {
	bad := fault.InvalidParam.At("read image", place.Address())
	found, err := place.Resolve(ctx, place.Tag)
	if err != nil {
		return nil, err
	}
	out := &Image{Descriptor: found}
	raw, err := place.FetchBytes(ctx, found, mostManifest)
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil || manifest.Config.MediaType != TypeConfig {
		return nil, bad.Because("it is no index of unweaver: its configuration has the type " + manifest.Config.MediaType)
	}
	if err := readTable(ctx, place, manifest.Config, mostTable, &out.Manifest); err != nil {
		return nil, err
	}
	if out.Manifest.Format != core.ManifestFormat {
		return nil, newFormatFault(place, fmt.Sprintf("it has format %d, and this program reads format %d",
			out.Manifest.Format, core.ManifestFormat))
	}
	out.files = manifest.Layers
	if err := out.checkFiles(); err != nil {
		return nil, bad.Because(err).Advise("pull no image from whom you do not trust; to be sure who made it: --verify-key")
	}
	if key != nil {
		return out, checkSignature(ctx, place, out, key)
	}
	return out, nil
}

// readTable reads a small file of JSON. A field that this program does not know is one of a newer format.
func readTable(ctx context.Context, place *oci.Place, file ocispec.Descriptor, most int64, into any) error {
	raw, err := place.FetchBytes(ctx, file, most)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return newFormatFault(place, err)
	}
	return nil
}

func newFormatFault(place *oci.Place, why any) error {
	return fault.FormatUnknown.At("read image", place.Address()).
		Because(why).
		Advise("use the program version that pushed it")
}

// checkFiles refuses names that could lead out of an index, sizes without bounds, and files too few or too many.
func (m *Image) checkFiles() error {
	if m.Manifest.Generation == "" || !core.ValidSlug(m.Manifest.Generation) || !core.ValidIndex(m.Manifest.Index) {
		return fmt.Errorf("its generation has the name %s", fault.QuoteName(m.Manifest.Index+"@"+m.Manifest.Generation))
	}
	sizes := map[string]int64{}
	for _, segment := range unit.SegmentsOf(m.Manifest) {
		sizes[segment.SHA256] = segment.Bytes
	}
	here := artifact.Index{Name: m.Manifest.Index}
	seen := map[string]bool{}
	for _, file := range m.files {
		if err := file.Digest.Validate(); err != nil || file.Digest.Algorithm() != digest.SHA256 {
			return fmt.Errorf("file %s has no usable digest", fault.QuoteName(file.Digest.String()))
		}
		key := m.keyOf(here, file)
		if key == "" || seen[key] {
			return fmt.Errorf("it has a file of the type %s that is none of it", fault.QuoteName(file.MediaType))
		}
		size, named := sizes[file.Digest.Encoded()]
		if (file.MediaType == TypeSegment) != named || file.Size < 0 || file.Size > mostFile && !named ||
			named && size != file.Size {
			return fmt.Errorf("file %s has %d bytes, and its manifest says %d", file.Digest, file.Size, size)
		}
		delete(sizes, file.Digest.Encoded())
		seen[key], m.bytes = true, m.bytes+file.Size
	}
	for sum := range sizes {
		return fmt.Errorf("segment %s is missing", sum)
	}
	if !seen[here.SpecKey(m.Manifest.Spec)] {
		return fmt.Errorf("its configuration %s is missing", m.Manifest.Spec)
	}
	return nil
}

// keyOf returns where a file lies in an index; empty: it is no file of the image.
func (m *Image) keyOf(index artifact.Index, file ocispec.Descriptor) string {
	sum, title := file.Digest.Encoded(), file.Annotations[ocispec.AnnotationTitle]
	switch file.MediaType {
	case TypeSegment:
		return index.SegmentKey(sum)
	case typeSpec:
		if sum == m.Manifest.Spec.String() {
			return index.SpecKey(m.Manifest.Spec)
		}
	case typeProbes:
		return index.ProbesKey(sum)
	case typeAliases:
		return index.AliasesKey(sum)
	case typeLetter:
		if title != "" && core.ValidSlug(title) {
			return extract.DeadLetterKey(index, m.Manifest.Generation, title)
		}
	}
	for _, single := range singles {
		if single.kind == file.MediaType {
			return index.GenerationKey(m.Manifest.Generation, single.name)
		}
	}
	return ""
}

// find returns the file of a type; nil: there is none.
func (m *Image) find(kind string) *ocispec.Descriptor {
	for i, file := range m.files {
		if file.MediaType == kind {
			return &m.files[i]
		}
	}
	return nil
}

// Verify reads every file of an image and compares it with its digest.
func Verify(
	ctx context.Context, from oci.Options, key *ecdsa.PublicKey, meter *Meter,
) (out core.Transfer, err error) {
	began := time.Now()
	place, err := oci.Open(ctx, from)
	if err != nil {
		return out, err
	}
	image, err := Read(ctx, place, key)
	if err != nil {
		return out, err
	}
	meter.Begin(core.TransferVerify, image.bytes)
	err = parallel.Each(ctx, len(image.files), width, func(ctx context.Context, i int) error {
		return place.Fetch(ctx, image.files[i], func(in io.Reader) error {
			_, err := io.Copy(io.Discard, in)
			return err
		}, meter.Add)
	})
	out = image.describe(core.TransferVerify, image.Manifest.Index, place)
	out.Moved, out.Seconds = out.Bytes, time.Since(began).Seconds()
	return out, err
}

// describe returns what a transfer of the image is about.
func (m *Image) describe(action, index string, place *oci.Place) core.Transfer {
	return core.Transfer{
		Action: action, Index: index, Place: place.Address(), Digest: m.Descriptor.Digest.String(),
		Generation: m.Manifest.Generation, Files: len(m.files), Bytes: m.bytes, Signed: m.Signed,
	}
}

// Meter reports how far a transfer is, some times in a second.
type Meter struct {
	Report func(core.Transfer) // nil: no one asks

	mu    sync.Mutex
	now   core.Transfer
	began time.Time
	last  time.Time
}

// looks is how often a meter reports.
const looks = 250 * time.Millisecond

// Begin begins a stage of so many bytes.
func (m *Meter) Begin(stage string, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.began = core.Transfer{Stage: stage, Total: total}, time.Now()
}

// Add counts what was done.
func (m *Meter) Add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Done = min(m.now.Total, m.now.Done+int64(n))
	if m.Report != nil && time.Since(m.last) > looks {
		m.last, m.now.Seconds = time.Now(), time.Since(m.began).Seconds()
		m.Report(m.now)
	}
}
