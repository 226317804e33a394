package image

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

func discard(in io.Reader) error {
	_, err := io.Copy(io.Discard, in)
	return err
}

// eachFile does something with files, some at once.
func eachFile(
	ctx context.Context, files []ocispec.Descriptor, do func(context.Context, ocispec.Descriptor) error,
) error {
	return parallel.Each(ctx, len(files), width, func(ctx context.Context, i int) error { return do(ctx, files[i]) })
}

// Pushing sends a generation.
type Pushing struct {
	Index      artifact.Index
	Generation string // empty: what is served
	Place      *oci.Place
	Key        *ecdsa.PrivateKey // nil: no signature is written
	Meter      *Meter
}

// Push sends a generation to a place, blobs first and its name last. What the place has is not sent again.
func Push(ctx context.Context, p Pushing) (core.Transfer, error) {
	began := time.Now()
	p.Meter.Begin("list", 0)
	image, err := p.listFiles(ctx)
	if err != nil {
		return core.Transfer{}, err
	}
	raw, err := json.Marshal(image.Config)
	if err != nil {
		return core.Transfer{}, err
	}
	config := pack(TypeConfig, raw)
	described, err := packManifest(Type, config.Descriptor, image.files, nil, map[string]string{
		ocispec.AnnotationTitle:   image.Config.Index + "@" + image.Config.Generation,
		ocispec.AnnotationCreated: image.Config.Created.UTC().Format(time.RFC3339),
	})
	image.Descriptor, image.Signed = described.Descriptor, p.Key != nil
	out := image.describe(core.TransferPush, p.Index.Name, p.Place)
	if err != nil {
		return out, err
	}
	var moved atomic.Int64
	p.Meter.Begin("push", out.Bytes)
	err = eachFile(ctx, image.files, func(ctx context.Context, file ocispec.Descriptor) error {
		sent, err := p.Place.Push(ctx, file, func(ctx context.Context) (io.ReadCloser, error) {
			body, _, err := p.Index.Store.Get(ctx, p.Index.Name+"/"+keyOf(file), blob.All)
			return body, err
		}, p.Meter.Add)
		if sent {
			moved.Add(file.Size)
		} else {
			p.Meter.Add(int(file.Size))
		}
		if fault.Is(err, fault.SegmentDamage) {
			err = fault.SegmentDamage.At("push", p.Index.Name+"/"+keyOf(file)).Because(err).
				Advise("repair it: unweaver restore " + p.Index.Name)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	if out.Moved, err = send(ctx, p.Place, config, described); err != nil {
		return out, err
	}
	if err := p.pushReferrers(ctx, image); err != nil {
		return out, err
	}
	out.Moved += moved.Load()
	if p.Place.Local { // which keeps the images of several nights
		err = p.Place.TagManifest(ctx, image.Descriptor, out.Generation)
	}
	if err == nil && p.Place.Tag != out.Generation {
		err = p.Place.TagManifest(ctx, image.Descriptor, p.Place.Tag)
	}
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

// pushReferrers sends what refers to an image: its report, and a signature.
func (p Pushing) pushReferrers(ctx context.Context, image *Image) error {
	if image.report != nil {
		report, err := packManifest(TypeReport, ocispec.DescriptorEmptyJSON, []ocispec.Descriptor{*image.report},
			&image.Descriptor, nil)
		if err == nil {
			_, err = send(ctx, p.Place, packed{ocispec.DescriptorEmptyJSON, []byte("{}")}, report)
		}
		if err != nil {
			return err
		}
	}
	if p.Key == nil {
		return nil
	}
	return sign(ctx, p.Place, image.Descriptor, p.Key)
}

// listFiles lists what an image of the generation contains.
func (p Pushing) listFiles(ctx context.Context) (*Image, error) {
	current, _, err := p.Index.ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	if p.Generation == "" {
		p.Generation = current.Generation
	}
	if current.Generation == "" {
		return nil, fault.UnknownIndex.At("push", p.Index.Name).
			Because("the index has no published generation").
			Advise("to list the indexes: unweaver ls")
	}
	refs, err := p.Index.ListByName(ctx)
	if err != nil {
		return nil, err
	}
	ref, ok := refs[p.Generation]
	if !ok || ref.State != core.GenerationPublished {
		return nil, fault.UnknownGen.At("push generation", fault.QuoteName(p.Generation)).
			Because("the index has no published generation of that name").
			Advise("to list them: unweaver generations " + p.Index.Name)
	}
	manifest, err := p.Index.Manifest(ctx, ref.Manifest)
	if err != nil {
		return nil, err
	}
	out := &Image{Config: Config{
		Format: Format, Index: p.Index.Name, Generation: manifest.Generation, Seq: manifest.Seq, Created: manifest.Created,
		Manifest: ref.Manifest, Spec: manifest.Spec, Class: manifest.Class, Chunk: manifest.Chunk,
		Models: manifest.Models, Counts: manifest.Counts, Hashes: manifest.Hashes,
	}}
	for _, segment := range unit.SegmentsOf(manifest) {
		out.files = append(out.files, describe("segments/"+segment.SHA256, segment.SHA256, segment.Bytes))
	}
	spec, err := p.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return nil, err
	}
	keys := []string{p.Index.SegmentKey(ref.Manifest), p.Index.SpecKey(manifest.Spec)}
	if sum, sent := strings.CutPrefix(spec.Gate.Probes, core.SentFile); sent {
		keys = append(keys, p.Index.ProbesKey(sum))
	}
	if sum, sent := strings.CutPrefix(spec.Aliases, core.SentFile); sent {
		keys = append(keys, p.Index.AliasesKey(sum))
	}
	own := p.Index.GenerationKey(p.Generation, "manifest.json")
	for info, err := range p.Index.Store.List(ctx, p.Index.GenerationKey(p.Generation, "")+"/", "") {
		if err != nil {
			return nil, err
		}
		if info.Key != own && info.Key != p.Index.CollectedKey(p.Generation) {
			keys = append(keys, info.Key)
		}
	}
	return out, p.addFiles(ctx, out, keys)
}

// addFiles reads files whose digest no manifest gives, and adds them to an image.
func (p Pushing) addFiles(ctx context.Context, image *Image, keys []string) error {
	for _, key := range keys {
		body, _, err := p.Index.Store.Get(ctx, key, blob.All)
		if err != nil {
			return err
		}
		sum := sha256.New()
		size, err := io.Copy(sum, body)
		if cerr := body.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fault.StoreDown.At("read", p.Index.Store.Location(key)).Because(err)
		}
		file := describe(strings.TrimPrefix(key, p.Index.Name+"/"), hex.EncodeToString(sum.Sum(nil)), size)
		image.files = append(image.files, file)
		if key == p.Index.GenerationKey(image.Config.Generation, "report.json") {
			image.report = &file
		}
	}
	for _, file := range image.files {
		image.Config.Bytes += file.Size
	}
	return nil
}
