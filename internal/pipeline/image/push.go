package image

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// Pushing sends a generation.
type Pushing struct {
	Index      artifact.Index
	Generation string // empty: what is served
	To         oci.Options
	Key        *ecdsa.PrivateKey // nil: no signature is written
	Meter      *Meter
}

// source is what is sent: files of an index, and manifests that lie in memory.
type source struct {
	*memory.Store
	Pushing
	image  *Image
	config ocispec.Descriptor
	keys   map[digest.Digest]string
}

// Fetch implements content.Fetcher.
func (s *source) Fetch(ctx context.Context, file ocispec.Descriptor) (io.ReadCloser, error) {
	key, there := s.keys[file.Digest]
	if !there {
		return s.Store.Fetch(ctx, file)
	}
	body, _, err := s.Index.Store.Get(ctx, key, blob.All)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{oci.NewProven(file, body, s.Meter.Add, func(err error) error {
		if !errors.Is(err, content.ErrMismatchedDigest) {
			return err
		}
		return fault.SegmentDamage.At("push", key).
			Because("its content does not match " + file.Digest.String()).
			Advise("repair it: unweaver restore " + s.Index.Name)
	}), body}, nil
}

// Push sends a generation to a place, blobs first and its name last. What the place has is not sent again.
func Push(ctx context.Context, p Pushing) (out core.Transfer, err error) {
	began := time.Now()
	p.Meter.Begin("list", 0)
	s := &source{Store: memory.New(), Pushing: p, image: &Image{}, keys: map[digest.Digest]string{}}
	if err := s.listFiles(ctx); err != nil { // before the place is made
		return out, err
	}
	image := s.image
	about := map[string]string{
		ocispec.AnnotationTitle:   p.Index.Name + "@" + image.Manifest.Generation,
		ocispec.AnnotationCreated: image.Manifest.Created.UTC().Format(time.RFC3339),
	}
	if image.Descriptor, err = oras.PackManifest(ctx, s.Store, oras.PackManifestVersion1_1, Type, oras.PackManifestOptions{
		ConfigDescriptor: &s.config, Layers: image.files, ManifestAnnotations: about,
	}); err != nil {
		return out, err
	}
	if image.Descriptor.Size > mostManifest {
		return out, fault.TooLarge.At("describe image", fmt.Sprintf("%d files", len(image.files))).
			Because("its manifest is larger than registries accept").
			Advise("build the index again with fewer segments: unweaver index --rebuild")
	}
	p.To.Create = true
	place, err := oci.Open(ctx, p.To)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	image.Signed = p.Key != nil
	out = image.describe(core.TransferPush, p.Index.Name, place)
	roots := []ocispec.Descriptor{image.Descriptor}
	if report := image.find(typeReport); report != nil {
		root, err := oras.PackManifest(ctx, s.Store, oras.PackManifestVersion1_1, typeReport, oras.PackManifestOptions{
			Subject: &image.Descriptor, Layers: []ocispec.Descriptor{*report}, ManifestAnnotations: about,
		})
		if err != nil {
			return out, err
		}
		roots = append(roots, root)
	}
	var moved atomic.Int64
	p.Meter.Begin("push", out.Bytes)
	for _, root := range roots {
		if err := place.Send(ctx, root, s, oras.CopyGraphOptions{
			Concurrency:   width,
			PostCopy:      func(_ context.Context, sent ocispec.Descriptor) error { moved.Add(sent.Size); return nil },
			OnCopySkipped: func(_ context.Context, there ocispec.Descriptor) error { p.Meter.Add(int(there.Size)); return nil },
		}); err != nil {
			return out, err
		}
	}
	if p.Key != nil {
		if err := sign(ctx, place, s.Store, image.Descriptor, p.Key); err != nil {
			return out, err
		}
	}
	if place.Local { // which keeps the images of several nights
		err = place.TagManifest(ctx, image.Descriptor, out.Generation)
	}
	if err == nil {
		err = place.TagManifest(ctx, image.Descriptor, place.Tag)
	}
	out.Moved, out.Seconds = moved.Load(), time.Since(began).Seconds()
	return out, err
}

// listFiles lists what an image of the generation contains.
func (s *source) listFiles(ctx context.Context) error {
	current, _, err := s.Index.ReadPointer(ctx)
	if err != nil {
		return err
	}
	if current.Generation == "" {
		return fault.UnknownIndex.At("push", s.Index.Name).
			Because("the index has no published generation").
			Advise("to list the indexes: unweaver ls")
	}
	generation := s.Generation
	if generation == "" {
		generation = current.Generation
	}
	refs, err := s.Index.ListByName(ctx)
	if err != nil {
		return err
	}
	ref, ok := refs[generation]
	if !ok || ref.State != core.GenerationPublished {
		return fault.UnknownGen.At("push generation", fault.QuoteName(generation)).
			Because("the index has no published generation of that name, or it is collected").
			Advise("to list them: unweaver generations " + s.Index.Name)
	}
	manifest, err := s.Index.Manifest(ctx, ref.Manifest)
	if err != nil {
		return err
	}
	spec, err := s.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return err
	}
	s.image.Manifest = manifest
	for _, segment := range unit.SegmentsOf(manifest) {
		s.addFile(ocispec.Descriptor{
			MediaType: TypeSegment, Digest: digest.NewDigestFromEncoded(digest.SHA256, segment.SHA256), Size: segment.Bytes,
		}, s.Index.SegmentKey(segment.SHA256))
	}
	s.config, err = describeFile(ctx, s.Index.Store, TypeConfig, s.Index.SegmentKey(ref.Manifest))
	if err != nil {
		return err
	}
	s.keys[s.config.Digest] = s.Index.SegmentKey(ref.Manifest)
	return s.addTables(ctx, spec)
}

func (s *source) addFile(file ocispec.Descriptor, key string) {
	s.image.files, s.keys[file.Digest] = append(s.image.files, file), key
	s.image.bytes += file.Size
}

// addTables adds the files whose digest no manifest gives. Those of the generation may be missing.
func (s *source) addTables(ctx context.Context, spec core.Spec) error {
	add := func(kind, key string, title map[string]string) error {
		file, err := describeFile(ctx, s.Index.Store, kind, key)
		if err == nil {
			file.Annotations = title
			s.addFile(file, key)
		}
		return err
	}
	if err := add(typeSpec, s.Index.SpecKey(s.image.Manifest.Spec), nil); err != nil {
		return err
	}
	if sum, sent := strings.CutPrefix(spec.Gate.Probes, core.SentFile); sent {
		if err := add(typeProbes, s.Index.ProbesKey(sum), nil); err != nil {
			return err
		}
	}
	if sum, sent := strings.CutPrefix(spec.Aliases, core.SentFile); sent {
		if err := add(typeAliases, s.Index.AliasesKey(sum), nil); err != nil {
			return err
		}
	}
	generation := s.image.Manifest.Generation
	for _, single := range singles {
		err := add(single.kind, s.Index.GenerationKey(generation, single.name), nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	letters := extract.DeadLetterKey(s.Index, generation, "")
	for info, err := range s.Index.Store.List(ctx, letters, "") {
		if err != nil {
			return err
		}
		chunk := strings.TrimSuffix(strings.TrimPrefix(info.Key, letters), ".json")
		if err := add(typeLetter, info.Key, map[string]string{ocispec.AnnotationTitle: chunk}); err != nil {
			return err
		}
	}
	return nil
}

// describeFile reads a file and returns its descriptor.
func describeFile(ctx context.Context, store blob.Store, kind, key string) (out ocispec.Descriptor, err error) {
	body, _, err := store.Get(ctx, key, blob.All)
	if err != nil {
		return out, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return out, fault.StoreDown.At("read", store.Location(key)).Because(err)
	}
	return ocispec.Descriptor{
		MediaType: kind, Digest: digest.NewDigest(digest.SHA256, sum), Size: size,
	}, nil
}
