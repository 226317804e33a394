package image

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

// Files of an image lead nowhere but to where an index has such files.
//
// Promises: 173.
func TestFilesOfAnImageAreThoseOfItsGeneration(t *testing.T) {
	sum := digest.FromString("a")
	const title = ocispec.AnnotationTitle
	letter := "generations/g1/dead-letters/"
	for name, c := range map[string]struct {
		change func(*Image)
		says   string
	}{
		"whole":              {func(*Image) {}, ""},
		"a letter":           {func(i *Image) { i.files[2].Annotations[title] = letter + "c1.json" }, ""},
		"a way out":          {func(i *Image) { i.files[2].Annotations[title] = letter + "../../../current.json" }, "none of it"},
		"the pointer":        {func(i *Image) { i.files[2].Annotations[title] = "current.json" }, "none of it"},
		"of another":         {func(i *Image) { i.files[2].Annotations[title] = "generations/g2/report.md" }, "none of it"},
		"no name":            {func(i *Image) { i.files[2].Annotations = nil }, "none of it"},
		"a file twice":       {func(i *Image) { i.files[2] = i.files[0] }, "none of it"},
		"another's content":  {func(i *Image) { i.files[0].Digest = digest.FromString("b") }, "none of it"},
		"another's settings": {func(i *Image) { i.files[1].Digest = sum }, "none of it"},
		"an unlisted one": {func(i *Image) {
			i.files[2].Annotations[title] = "segments/" + i.files[2].Digest.Encoded()
		}, "none of it"},
		"no digest":       {func(i *Image) { i.files[2].Digest = "sha256:zz" }, "no usable digest"},
		"another digest":  {func(i *Image) { i.files[2].Digest = digest.SHA512.FromString("a") }, "no usable digest"},
		"an endless file": {func(i *Image) { i.files[2].Size = 1 << 60 }, "bytes"},
		"a report that takes much memory": {func(i *Image) {
			i.files[2].Annotations[title], i.files[2].Size = "generations/g1/report.json", 5<<20
		}, "bytes"},
		"a size below zero": {func(i *Image) { i.files[2].Size = -1 }, "bytes"},
		"another size":      {func(i *Image) { i.files[0].Size++ }, "bytes"},
		"a segment too few": {func(i *Image) { i.files = i.files[1:] }, "is missing"},
		"no settings":       {func(i *Image) { i.files = append(i.files[:1:1], i.files[2:]...) }, "is missing"},
		"a bad generation":  {func(i *Image) { i.Manifest.Generation = "../" }, "valid name"},
		"a bad index":       {func(i *Image) { i.Manifest.Index = "ledger" }, "valid name"},
		"a segment's way out": {func(i *Image) {
			i.Manifest.Segments.Documents[0].SHA256 = "../current.json"
			i.files[0].Annotations[title] = "segments/../current.json"
		}, "none of it"},
	} {
		image := &Image{Manifest: &core.Manifest{Index: "docs", Generation: "g1"}}
		image.Manifest.Segments.Documents = []core.Segment{{SHA256: sum.Encoded(), Bytes: 1}}
		image.Manifest.Spec = core.Digest{1}
		spec := digest.NewDigestFromEncoded(digest.SHA256, image.Manifest.Spec.String())
		image.files = []ocispec.Descriptor{
			newFile("segments/"+sum.Encoded(), sum, 1), newFile(specName(image.Manifest), spec, 9),
			newFile("generations/g1/report.md", digest.FromString("report"), 6),
		}
		c.change(image)
		err := image.checkFiles()
		assert.True(t, (err == nil) == (c.says == "") && (err == nil || strings.Contains(err.Error(), c.says)), "%s: %v",
			name, err)
	}
}
