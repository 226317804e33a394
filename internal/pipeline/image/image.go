// Package image moves a generation of an index to and from images by the OCI specifications. The files of a generation
// are immutable and named by content, so each is one blob: a second night moves what is new. An image has no paid
// results. What a pull writes is served by the ways of package release.
package image

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// Types of an image and its parts.
const (
	Type       = "application/vnd.unweaver.index.v1"
	TypeConfig = "application/vnd.unweaver.index.config.v1+json"
	TypeFile   = "application/vnd.unweaver.file.v1"
	TypeReport = "application/vnd.unweaver.report.v1+json"
	// KeyAnnotation of a layer is the key of its file below the index.
	KeyAnnotation = "dev.unweaver.key"
)

// Format is raised when a reader of the old format could misread the new one.
const Format = 1

// Bounds of what is read into memory, and of files that no manifest gives a size.
const (
	mostManifest = 4 << 20 // registries accept no larger one
	mostConfig   = 1 << 20
	mostTable    = 256 << 20 // the manifest of a generation
	mostFile     = 1 << 30
)

// width is how many blobs move at once.
const width = 8

// Config describes an image.
type Config struct {
	Format     int               `json:"format"`
	Index      string            `json:"index"`
	Generation string            `json:"generation"`
	Seq        int64             `json:"seq"`
	Created    time.Time         `json:"created"`
	Manifest   string            `json:"manifest"` // sha256 of the generation's
	Spec       core.Digest       `json:"spec"`     // of the configuration that it was built with
	Class      core.Fingerprint  `json:"class_embedder"`
	Chunk      core.Fingerprint  `json:"chunk_embedder"`
	Models     core.ModelSummary `json:"models"`
	Counts     core.Counts       `json:"counts"`
	Hashes     core.Hashes       `json:"hashes"`
	Bytes      int64             `json:"bytes"` // of all files
}

// Image is one that was read, with its digest pinned.
type Image struct {
	Descriptor ocispec.Descriptor
	Config     Config
	Signed     bool
	files      []ocispec.Descriptor
	report     *ocispec.Descriptor
}

// keyOf returns the key of a file below its index.
func keyOf(file ocispec.Descriptor) string { return file.Annotations[KeyAnnotation] }

// describe returns the descriptor of a file.
func describe(key, sha string, size int64) ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: TypeFile, Digest: digest.NewDigestFromEncoded(digest.SHA256, sha), Size: size,
		Annotations: map[string]string{KeyAnnotation: key},
	}
}

// packed is a small blob that lies in memory.
type packed struct {
	ocispec.Descriptor
	raw []byte
}

func pack(kind string, raw []byte) packed {
	return packed{content.NewDescriptorFromBytes(kind, raw), raw}
}

// packManifest returns an image manifest.
func packManifest(
	kind string, config ocispec.Descriptor, layers []ocispec.Descriptor, subject *ocispec.Descriptor,
	notes map[string]string,
) (packed, error) {
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: kind,
		Config: config, Layers: layers, Subject: subject, Annotations: notes,
	})
	if err == nil && len(raw) > mostManifest {
		err = fault.TooLarge.At("describe image", fmt.Sprintf("%d files", len(layers))).
			Because("its manifest is larger than registries accept").
			Advise("build the index again with fewer segments: unweaver index --rebuild")
	}
	return pack(ocispec.MediaTypeImageManifest, raw), err
}

// send sends small blobs in order, and returns how many bytes the place lacked.
func send(ctx context.Context, place *oci.Place, blobs ...packed) (moved int64, err error) {
	for _, one := range blobs {
		sent, err := place.PushBytes(ctx, one.Descriptor, one.raw)
		if err != nil {
			return moved, err
		}
		if sent {
			moved += one.Size
		}
	}
	return moved, nil
}

// Read finds the image of a place and checks all but its files, and that the owner of the key signed it; nil: any image
// is taken. From then on its digest counts: a tag may move.
func Read(ctx context.Context, place *oci.Place, key *ecdsa.PublicKey) (*Image, error) {
	bad := fault.InvalidParam.At("read image", place.Name+":"+place.Tag)
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
	if raw, err = place.FetchBytes(ctx, manifest.Config, mostConfig); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &out.Config); err != nil {
		return nil, bad.Because(err)
	}
	if out.Config.Format != Format {
		return nil, fault.FormatUnknown.At("read image", place.Name+":"+place.Tag).
			Because(fmt.Sprintf("it has format %d, and this program reads format %d", out.Config.Format, Format)).
			Advise("use the program version that pushed it")
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

// checkFiles refuses names that could lead out of an index, and sizes without bounds.
func (m *Image) checkFiles() error {
	if !core.ValidSlug(m.Config.Generation) {
		return fmt.Errorf("its generation has the name %s", fault.QuoteName(m.Config.Generation))
	}
	seen := map[string]bool{}
	var bytes int64
	for _, file := range m.files {
		key := keyOf(file)
		if _, err := m.place(artifact.Index{Name: "any"}, file); err != nil || seen[key] {
			return fmt.Errorf("it has a file with the key %s", fault.QuoteName(key))
		}
		if err := file.Digest.Validate(); err != nil || file.Digest.Algorithm() != digest.SHA256 || file.Size < 0 {
			return fmt.Errorf("file %s has no usable digest or size", fault.QuoteName(key))
		}
		if !strings.HasPrefix(key, "segments/") && file.Size > mostFile {
			return fmt.Errorf("file %s has %d bytes", fault.QuoteName(key), file.Size)
		}
		seen[key], bytes = true, bytes+file.Size
	}
	if bytes != m.Config.Bytes {
		return fmt.Errorf("its files have %d bytes, and its description says %d", bytes, m.Config.Bytes)
	}
	return nil
}

// place returns where a file lies in an index; empty: nowhere, as it is made anew there.
func (m *Image) place(index artifact.Index, file ocispec.Descriptor) (key string, err error) {
	folder, name, _ := strings.Cut(keyOf(file), "/")
	sum := file.Digest.Encoded()
	switch rest, inside := strings.CutPrefix(name, m.Config.Generation+"/"); {
	case folder == "segments" && name == sum && sum == m.Config.Manifest,
		folder == "specs" && name == m.Config.Spec.String()+".json" && sum == m.Config.Spec.String():
		return "", nil
	case folder == "segments" && name == sum:
		return index.SegmentKey(sum), nil
	case folder == "specs" && name == sum+artifact.ProbesSuffix:
		return index.ProbesKey(sum), nil
	case folder == "specs" && name == sum+artifact.AliasesSuffix:
		return index.AliasesKey(sum), nil
	case folder == "generations" && inside && fs.ValidPath(rest) && path.Base(rest) != "manifest.json" &&
		!strings.ContainsAny(rest, "\\\x00") && rest != "collected":
		return index.GenerationKey(m.Config.Generation, rest), nil
	}
	return "", fs.ErrInvalid
}

// Verify reads every file of an image and compares it with its digest.
func Verify(ctx context.Context, place *oci.Place, image *Image, meter *Meter) (core.Transfer, error) {
	meter.Begin(core.TransferVerify, image.Config.Bytes)
	out := image.describe(core.TransferVerify, image.Config.Index, place)
	out.Moved = out.Bytes
	return out, eachFile(ctx, image.files, func(ctx context.Context, file ocispec.Descriptor) error {
		return place.Fetch(ctx, file, discard, meter.Add)
	})
}

// describe returns what a transfer of the image is about.
func (m *Image) describe(action, index string, place *oci.Place) core.Transfer {
	return core.Transfer{
		Action: action, Index: index, Place: place.Name + ":" + place.Tag, Digest: m.Descriptor.Digest.String(),
		Generation: m.Config.Generation, Files: len(m.files), Bytes: m.Config.Bytes, Signed: m.Signed,
	}
}

// Meter reports how far a transfer is, some times in a second.
type Meter struct {
	Report func(core.Transfer) // nil: nobody asks

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
