package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// source is what is sent: files of an index, and manifests that lie in memory.
type source struct {
	*memory.Store
	mover *Mover
	index artifact.Index
	image *Image
	keys  map[digest.Digest]string
}

// partial is a target that is believed to have files, but no manifest: it may have lost what a manifest names.
type partial struct{ oras.Target }

// Exists implements content.ReadOnlyStorage.
func (t partial) Exists(ctx context.Context, file ocispec.Descriptor) (bool, error) {
	if file.MediaType == ocispec.MediaTypeImageManifest {
		return false, nil
	}
	return t.Target.Exists(ctx, file)
}

// Fetch implements content.Fetcher.
func (s *source) Fetch(ctx context.Context, file ocispec.Descriptor) (io.ReadCloser, error) {
	key, there := s.keys[file.Digest]
	if !there {
		return s.Store.Fetch(ctx, file)
	}
	body, _, err := s.index.Store.Get(ctx, key, blob.All)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{metered{oci.NewProven(body, file, func(err error) error {
		if errors.Is(err, content.ErrMismatchedDigest) {
			err = fault.SegmentDamage.At("push", key).Because(err).Advise("repair it: unweaver restore " + s.index.Name)
		}
		return err
	}), s.mover}, body}, nil
}

// push sends a generation to a place, blobs first and its name last. What the place has is not sent again.
func (m *Mover) push(ctx context.Context) (out core.Transfer, err error) {
	s := &source{
		Store: memory.New(), mover: m, index: artifact.Index{Store: m.Ports.Artifacts, Name: m.Index},
		image: &Image{named: map[string]ocispec.Descriptor{}}, keys: map[digest.Digest]string{},
	}
	if err := s.describeImage(ctx, m.Generation); err != nil { // before the place is made
		return out, err
	}
	image := s.image
	place, err := m.open(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	var signature ocispec.Descriptor // none where the place has one by the key
	if image.signed = m.Key != ""; image.signed {
		if signature, err = s.sign(ctx, place, m.Key); err != nil {
			return out, err
		}
	}
	target := place.Target.(oras.Target)
	options := oras.ExtendedCopyGraphOptions{CopyGraphOptions: oras.CopyGraphOptions{
		Concurrency: width,
		PostCopy: func(_ context.Context, file ocispec.Descriptor) error {
			if file.MediaType != ocispec.MediaTypeImageManifest {
				m.count(0, file.Size)
			}
			return nil
		},
		OnCopySkipped: func(_ context.Context, file ocispec.Descriptor) error {
			m.count(file.Size, 0)
			return nil
		},
	}}
	m.beginStage(m.Action, image.bytes)
	err = place.Do(ctx, "send image", func(ctx context.Context) error {
		if err := oras.ExtendedCopyGraph(ctx, s, partial{target}, image.Descriptor, options); err != nil {
			return err
		}
		if signature.Digest != "" {
			if err := target.Tag(ctx, signature, signatureTag(image.Descriptor)); err != nil {
				return err
			}
		}
		return target.Tag(ctx, image.Descriptor, place.Tag)
	})
	return m.describe(image, place), err
}

// describeImage packs what an image of a generation contains, and its report as a referrer.
func (s *source) describeImage(ctx context.Context, generation string) (err error) {
	manifest, err := s.listFiles(ctx, generation)
	if err != nil {
		return err
	}
	image := s.image
	config, err := describeFile(ctx, s.index.Store, manifest)
	if err != nil {
		return err
	}
	config.MediaType, config.Annotations, s.keys[config.Digest] = typeConfig, nil, manifest
	about := map[string]string{
		ocispec.AnnotationTitle:   s.index.Name + "@" + image.Manifest.Generation,
		ocispec.AnnotationCreated: image.Manifest.Created.UTC().Format(time.RFC3339),
	}
	options := oras.PackManifestOptions{ConfigDescriptor: &config, Layers: image.files, ManifestAnnotations: about}
	image.Descriptor, err = oras.PackManifest(ctx, s.Store, oras.PackManifestVersion1_1, typeIndex, options)
	if err != nil {
		return err
	}
	if image.Descriptor.Size > mostManifest {
		return fault.TooLarge.At("describe image", fmt.Sprintf("%d files", len(image.files))).
			Because("its manifest is larger than registries accept").
			Advise("build the index again with fewer segments: unweaver index --rebuild")
	}
	if report, there := image.named["generations/"+image.Manifest.Generation+"/report.json"]; there {
		_, err = oras.PackManifest(ctx, s.Store, oras.PackManifestVersion1_1, typeReport, oras.PackManifestOptions{
			Subject: &image.Descriptor, Layers: []ocispec.Descriptor{report}, ManifestAnnotations: about,
		})
	}
	return err
}

// listFiles lists what an image of the generation contains, and returns the key of its manifest.
func (s *source) listFiles(ctx context.Context, generation string) (string, error) {
	current, _, err := s.index.ReadPointer(ctx)
	ref := core.GenerationRef{Manifest: current.Manifest, State: core.GenerationPublished}
	if err == nil && generation != "" && generation != current.Generation {
		ref, err = s.index.GenerationRef(ctx, generation)
	}
	if err == nil && (ref.Manifest == "" || ref.State != core.GenerationPublished) {
		err = fault.UnknownGen.At("push", strings.TrimSuffix(s.index.Name+"@"+generation, "@")).
			Because("there is no such index, or it has no such published generation").
			Advise("to list them: unweaver ls; unweaver generations " + s.index.Name)
	}
	if err != nil {
		return "", err
	}
	manifest, err := s.index.Manifest(ctx, ref.Manifest)
	if err != nil {
		return "", err
	}
	spec, err := s.index.Spec(ctx, manifest.Spec)
	if err != nil {
		return "", err
	}
	s.image.Manifest = manifest
	keys := []string{s.index.SpecKey(manifest.Spec)}
	if sum, sent := strings.CutPrefix(spec.Gate.Probes, core.SentFile); sent {
		keys = append(keys, s.index.ProbesKey(sum))
	}
	if sum, sent := strings.CutPrefix(spec.Aliases, core.SentFile); sent {
		keys = append(keys, s.index.AliasesKey(sum))
	}
	folder := s.index.GenerationKey(manifest.Generation, "") + "/"
	for info, err := range s.index.Store.List(ctx, folder, "") {
		if err != nil {
			return "", err
		}
		if generationFiles.MatchString(strings.TrimPrefix(info.Key, folder)) {
			keys = append(keys, info.Key)
		}
	}
	for _, key := range keys {
		file, err := describeFile(ctx, s.index.Store, key)
		if err != nil {
			return "", err
		}
		s.addFile(file, key)
	}
	for _, segment := range unit.SegmentsOf(manifest) {
		key := s.index.SegmentKey(segment.SHA256)
		sum := digest.NewDigestFromEncoded(digest.SHA256, segment.SHA256)
		s.addFile(newFile("segments/"+segment.SHA256, sum, segment.Bytes), key)
	}
	return s.index.SegmentKey(ref.Manifest), nil
}

func (s *source) addFile(file ocispec.Descriptor, key string) {
	s.image.files, s.keys[file.Digest] = append(s.image.files, file), key
	s.image.named[file.Annotations[ocispec.AnnotationTitle]] = file
	s.image.bytes += file.Size
}
