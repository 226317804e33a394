package image

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// The names of a signature by cosign's simple signing.
const (
	typeSignature  = "application/vnd.dev.cosign.artifact.sig.v1+json"
	typePayload    = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureNote  = "dev.cosignproject.cosign/signature"
	payloadType    = "cosign container image signature"
	mostPayload    = 64 << 10
	mostSignatures = 64
)

// payload is what is signed.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]string `json:"optional"`
}

// signatureTag names the signatures of an image.
func signatureTag(image ocispec.Descriptor) string {
	return strings.Replace(image.Digest.String(), ":", "-", 1) + ".sig"
}

// sign packs the signature of the image, and returns nothing where the place has one by the same key. One by another
// key is replaced.
func (s *source) sign(ctx context.Context, place *oci.Place, file string) (out ocispec.Descriptor, err error) {
	key, err := readKey[*ecdsa.PrivateKey](file, x509.ParsePKCS8PrivateKey)
	if err != nil {
		return out, err
	}
	image := s.image.Descriptor
	if signed, err := isSigned(ctx, place, image, &key.PublicKey); err != nil || signed {
		return out, err
	}
	var what payload
	what.Critical.Identity.Reference, what.Critical.Image.Digest = place.Repository, image.Digest.String()
	what.Critical.Type = payloadType
	raw, err := json.Marshal(what)
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(raw)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return out, err
	}
	layer, err := oras.PushBytes(ctx, s.Store, typePayload, raw)
	if err != nil {
		return out, err
	}
	layer.Annotations = map[string]string{signatureNote: base64.StdEncoding.EncodeToString(signature)}
	config, err := oras.PushBytes(ctx, s.Store, ocispec.MediaTypeImageConfig, []byte("{}"))
	if err != nil {
		return out, err
	}
	return oras.PackManifest(ctx, s.Store, oras.PackManifestVersion1_1, typeSignature, oras.PackManifestOptions{
		Subject: &image, Layers: []ocispec.Descriptor{layer}, ConfigDescriptor: &config,
	})
}

// isSigned reports whether a signature of this image is by this key.
func isSigned(
	ctx context.Context, place *oci.Place, image ocispec.Descriptor, key *ecdsa.PublicKey,
) (bool, error) {
	found, err := place.Resolve(ctx, signatureTag(image))
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return false, err
	}
	raw, err := place.FetchBytes(ctx, found, mostManifest)
	if err != nil {
		return false, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return false, fault.InvalidParam.At("read the signatures of", place.Name).Because(err)
	}
	for _, layer := range manifest.Layers[:min(len(manifest.Layers), mostSignatures)] {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureNote])
		if err != nil || layer.MediaType != typePayload {
			continue
		}
		raw, err := place.FetchBytes(ctx, layer, mostPayload)
		if err != nil {
			return false, err
		}
		var what payload
		sum := sha256.Sum256(raw)
		if ecdsa.VerifyASN1(key, sum[:], signature) && json.Unmarshal(raw, &what) == nil &&
			what.Critical.Type == payloadType && what.Critical.Image.Digest == image.Digest.String() {
			return true, nil
		}
	}
	return false, nil
}

// checkSignature refuses an image that the owner of a key did not sign.
func checkSignature(ctx context.Context, place *oci.Place, image *Image, file string) error {
	key, err := readKey[*ecdsa.PublicKey](file, x509.ParsePKIXPublicKey)
	if err != nil {
		return err
	}
	image.signed, err = isSigned(ctx, place, image.Descriptor, key)
	if err == nil && !image.signed {
		err = fault.ImageUntrusted.At("verify", place.Address).
			Because("none of its signatures is by this key: " + image.Descriptor.Digest.String()).
			Advise("ask who pushed it to sign it: unweaver push --sign-key; or use the public key that belongs to it")
	}
	return err
}

// readKey reads a key of ECDSA from a PEM file.
func readKey[K any](file string, parse func([]byte) (any, error)) (key K, err error) {
	raw, err := os.ReadFile(file)
	if block, _ := pem.Decode(raw); block != nil {
		var parsed any
		parsed, err = parse(block.Bytes)
		if found, ok := parsed.(K); ok {
			return found, nil
		}
	}
	if err == nil {
		err = errors.New("it is no PEM file with a key of ECDSA")
	}
	return key, fault.BadConfig.At("read key", file).Because(err).Advise("make one without a password: openssl genpkey " +
		"-algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem; openssl pkey -in key.pem -pubout -out key.pub")
}
