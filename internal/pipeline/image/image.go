// Package image moves a generation of an index to and from images by the OCI specifications. The files of a generation
// are immutable and named by content, so each is one blob: a second night moves what is new. An image has no paid
// results. What a pull writes is served by the ways of package release.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/blobcache"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Types of an image and its parts. The configuration of an image is the manifest of its generation. The title of a file
// is where it lies in an index.
const (
	vendor     = "application/vnd.unweaver."
	typeIndex  = vendor + "index.v1"
	typeConfig = vendor + "index.config.v1+json"
	typeFile   = vendor + "file.v1"
	typeReport = vendor + "report.v1+json"
)

// generationFiles are those of the folder of a generation that an image has.
var generationFiles = regexp.MustCompile(`^(report\.json|report\.md|problems\.jsonl|watched\.jsonl|` +
	`dead-letters/[a-z0-9][a-z0-9-]{0,62}\.json)$`)

// Bounds of what is read into memory, and of files that no manifest gives a size.
const (
	mostManifest = 4 << 20 // registries accept no larger one
	mostConfig   = 1 << 20
	mostTable    = 16 << 20 // the manifest of a generation: its files are listed in mostManifest, too
	mostFile     = 1 << 30
	mostObjects  = 200_000  // of a table, which take far more memory than bytes; mostManifest lists fewer files
	mostReport   = 4 << 20  // report.json is read whole
	mostFrame    = 16 << 20 // of rows before compression, in an image without a checked signature: usual ones have 64 KiB
)

// width is how many blobs move at once.
const width = 8

// Mover does what a request asks for.
type Mover struct {
	core.ImageRequest
	Ports     *run.Ports // of a push only Artifacts, of a verification nil
	Operator  core.Operator
	Standings run.Standings
	Patience  time.Duration // see oci.Options

	mu    sync.Mutex
	now   core.Transfer // how far it is
	began time.Time     // its stage
}

// Move pushes, pulls or verifies an image.
func (m *Mover) Move(ctx context.Context) (out core.Transfer, err error) {
	began := time.Now()
	m.beginStage("resolve", 0)
	switch m.Action {
	case core.TransferPush:
		out, err = m.push(ctx)
	case core.TransferPull:
		out, err = m.pull(ctx)
	case core.TransferVerify:
		out, err = m.verify(ctx)
	default:
		err = fault.InvalidParam.At("move image", fault.QuoteName(m.Action)).Because("there is no such action")
	}
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

// Progress returns how far the transfer is.
func (m *Mover) Progress() core.Transfer {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.now
	out.Seconds = time.Since(m.began).Seconds()
	return out
}

// beginStage begins a stage of so many bytes.
func (m *Mover) beginStage(name string, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Stage, m.now.Done, m.now.Bytes, m.began = name, 0, total, time.Now()
}

// count counts bytes that the stage has done, and those of files that moved. What is read again after an error counts
// twice, up to the total of the stage.
func (m *Mover) count(done, moved int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Done, m.now.Moved = min(m.now.Bytes, m.now.Done+done), m.now.Moved+moved
}

// metered is a reader that counts what it reads as done.
type metered struct {
	io.Reader
	mover *Mover
}

// Read implements io.Reader.
func (r metered) Read(out []byte) (int, error) {
	n, err := r.Reader.Read(out)
	r.mover.count(int64(n), 0)
	return n, err
}

// open opens the place of the request.
func (m *Mover) open(ctx context.Context) (*oci.Place, error) {
	return oci.Open(ctx, oci.Options{Where: m.Where, Create: m.Action == core.TransferPush, Patience: m.Patience})
}

// Image is one that was read, with its digest pinned.
type Image struct {
	Descriptor ocispec.Descriptor
	Manifest   *core.Manifest
	signed     bool
	files      []ocispec.Descriptor
	named      map[string]ocispec.Descriptor // the files by their titles
	bytes      int64                         // of all files
}

// read finds the image of a place and checks all but its files, and before anything else that the owner of the key
// signed it; without a key any image is taken. From then on its digest counts: a tag may move.
func (m *Mover) read(ctx context.Context, place *oci.Place) (*Image, error) {
	bad := fault.InvalidParam.At("read image", place.Address)
	found, err := place.Resolve(ctx, place.Tag)
	if err != nil {
		return nil, err
	}
	out := &Image{Descriptor: found, Manifest: new(core.Manifest)}
	if m.Key != "" {
		if err := checkSignature(ctx, place, out, m.Key); err != nil {
			return nil, err
		}
	}
	raw, err := place.FetchBytes(ctx, found, mostManifest)
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil || manifest.Config.MediaType != typeConfig {
		return nil, bad.Because("it is no index of unweaver: its configuration has the type " + manifest.Config.MediaType)
	}
	if err := readTable(ctx, place, manifest.Config, mostTable, out.Manifest); err != nil {
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
	return out, nil
}

// readTable reads a small file of JSON. A field that this program does not know is one of a newer format.
func readTable(ctx context.Context, place *oci.Place, file ocispec.Descriptor, most int64, into any) error {
	raw, err := place.FetchBytes(ctx, file, most)
	if err != nil {
		return err
	}
	if bytes.Count(raw, []byte("{")) > mostObjects {
		return fault.TooLarge.At("read image", place.Address).
			Because(fmt.Sprintf("a table of it has more than %d objects", mostObjects))
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return newFormatFault(place, err)
	}
	return nil
}

func newFormatFault(place *oci.Place, why any) error {
	return fault.FormatUnknown.At("read image", place.Address).
		Because(why).
		Advise("use the program version that pushed it")
}

// checkFiles refuses names that could lead out of an index, sizes without bounds, and files too few or too many.
func (i *Image) checkFiles() error {
	if !core.ValidSlug(i.Manifest.Generation) || !core.ValidIndex(i.Manifest.Index) {
		return errors.New("its index or generation has no valid name")
	}
	sizes := map[string]int64{}
	for _, segment := range unit.SegmentsOf(i.Manifest) {
		sizes["segments/"+segment.SHA256] = segment.Bytes
	}
	i.named = map[string]ocispec.Descriptor{}
	for _, file := range i.files {
		if file.Digest.Validate() != nil || file.Digest.Algorithm() != digest.SHA256 {
			return fmt.Errorf("file %s has no usable digest", fault.QuoteName(file.Digest.String()))
		}
		name, sum := file.Annotations[ocispec.AnnotationTitle], file.Digest.Encoded()
		size, listed := sizes[name]
		_, twice := i.named[name]
		if listed = listed && name == "segments/"+sum; twice || !listed && !i.allows(name, sum) {
			return fmt.Errorf("it has a file %s that is none of it", fault.QuoteName(name))
		}
		most := int64(mostFile)
		if strings.HasSuffix(name, "/report.json") {
			most = mostReport
		}
		if listed && size != file.Size || file.Size < 0 || file.Size > most && !listed {
			return fmt.Errorf("file %s has %d bytes, and its manifest says %d", name, file.Size, size)
		}
		i.named[name], i.bytes = file, i.bytes+file.Size
	}
	sizes[specName(i.Manifest)] = 0
	for name := range sizes {
		if _, there := i.named[name]; !there {
			return fmt.Errorf("its file %s is missing", name)
		}
	}
	return nil
}

// specName returns where the configuration of a generation lies in an index.
func specName(manifest *core.Manifest) string { return "specs/" + manifest.Spec.String() + ".json" }

// allows reports whether an image may have a file of a name and sum that is no segment.
func (i *Image) allows(name, sum string) bool {
	if rest, found := strings.CutPrefix(name, "generations/"+i.Manifest.Generation+"/"); found {
		return generationFiles.MatchString(rest)
	}
	return name == "specs/"+sum+artifact.ProbesSuffix || name == "specs/"+sum+artifact.AliasesSuffix ||
		name == specName(i.Manifest) && sum == i.Manifest.Spec.String()
}

// keyOf returns the key of a file of an image in an index.
func keyOf(index string, file ocispec.Descriptor) string {
	return index + "/" + file.Annotations[ocispec.AnnotationTitle]
}

// verify reads every file of an image and compares it with its digest.
func (m *Mover) verify(ctx context.Context) (out core.Transfer, err error) {
	place, err := m.open(ctx)
	if err != nil {
		return out, err
	}
	image, err := m.read(ctx, place)
	if err != nil {
		return out, err
	}
	m.beginStage(m.Action, image.bytes)
	err = parallel.Each(ctx, len(image.files), width, func(ctx context.Context, n int) error {
		return place.Fetch(ctx, image.files[n], func(in io.Reader) error {
			_, err := io.Copy(io.Discard, metered{in, m})
			return err
		})
	})
	m.count(0, image.bytes)
	m.Index = image.Manifest.Index
	return m.describe(image, place), err
}

// describe returns what a transfer of the image is about.
func (m *Mover) describe(image *Image, place *oci.Place) core.Transfer {
	return core.Transfer{
		Action: m.Action, Index: m.Index, Place: place.Address, Digest: image.Descriptor.Digest.String(),
		Generation: image.Manifest.Generation, Files: len(image.files), Bytes: image.bytes, Moved: m.Progress().Moved,
		Signed: image.signed,
	}
}

// describeFile reads a file and returns its descriptor.
func describeFile(ctx context.Context, store blob.Store, key string) (out ocispec.Descriptor, err error) {
	body, _, err := blobcache.UnwrapMemory(store).Get(ctx, key, blob.All)
	if err != nil {
		return out, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return out, fault.StoreDown.At("read", store.Location(key)).Because(err)
	}
	_, name, _ := strings.Cut(key, "/")
	return newFile(name, digest.NewDigest(digest.SHA256, sum), size), nil
}

// newFile returns the descriptor of a file.
func newFile(name string, sum digest.Digest, size int64) ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: typeFile, Digest: sum, Size: size,
		Annotations: map[string]string{ocispec.AnnotationTitle: name},
	}
}
