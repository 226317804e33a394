package oci_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/assert"
	"oras.land/oras-go/v2/content"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// No part of an address that is refused is repeated: it may hold a token.
func TestAnAddressIsThatOfARegistryOrAPath(t *testing.T) {
	for where, says := range map[string]string{
		"oci://user:TOKEN@host/a:v1": "a password", "oci://TOKEN@host/a:v1": "a password",
		"oci://TOKEN%40host/a:v1": "a password", "oci://user:TOKEN/a": "no valid host", "oci://host/TOKEN": "no valid host",
		"https://user:TOKEN@host/a": "a scheme", "docker://user:TOKEN@host/a": "a scheme", "http://TOKEN/a": "a scheme",
		"OCI://user:TOKEN@host/a:v1": "a scheme", "oci:/TOKEN@host/a:v1": "a scheme",
	} {
		_, _, err := oci.ParseAddress(where)
		assert.True(t, fault.Is(err, fault.Usage) && strings.Contains(err.Error(), says), "%s: %v", where, err)
		assert.NotContains(t, err.Error()+fault.As(err).Hint, "TOKEN")
		_, opened := oci.Open(t.Context(), oci.Options{Where: where, Create: true})
		assert.Equal(t, err, opened)
	}
	sum := "@sha256:" + strings.Repeat("0", 64)
	for where, local := range map[string]bool{
		"oci://localhost:5000/a/b:v1": false, "oci://host/a" + sum: false, "images": true, "./a:/b": true, "/a/b.tar": true,
	} {
		_, got, err := oci.ParseAddress(where)
		assert.True(t, err == nil && got == local, "%s: %v", where, err)
	}
}

func TestABlobEndsOnlyOnceItIsProven(t *testing.T) {
	blob := ocispec.Descriptor{Digest: digest.FromString("whole"), Size: 5}
	broken := errors.New("broken")
	other := content.ErrMismatchedDigest
	for body, want := range map[string]error{"whole": nil, "wholE": other, "who": other} {
		var explained error
		from := io.MultiReader(strings.NewReader(body[:2]), strings.NewReader(body[2:]))
		in := oci.NewProven(from, blob, func(err error) error {
			explained = err
			return broken
		})
		raw, err := io.ReadAll(in)
		assert.ErrorIs(t, explained, want, body)
		if want == nil {
			assert.True(t, err == nil && string(raw) == body, "%q, %v", raw, err)
			continue
		}
		assert.True(t, errors.Is(err, broken) && len(raw) < 5, "%s: %q, %v", body, raw, err)
	}
}

// A manifest may name what it wants.
func TestADigestThatIsNoneIsRefused(t *testing.T) {
	place, err := oci.Open(t.Context(), oci.Options{Where: "oci://127.0.0.1:1/a:v1"})
	assert.NoError(t, err)
	for _, sum := range []digest.Digest{"", "md5:0", "sha256:zz"} {
		_, err := place.FetchBytes(t.Context(), ocispec.Descriptor{Digest: sum, Size: 1}, 9)
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %v", sum, err)
	}
}

func TestATarFileBelowNoFolderIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := oci.Open(t.Context(), oci.Options{Where: t.TempDir() + "/none/a.tar", Create: true})
	assert.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "none"), "%v", err)
	assert.Empty(t, musttest.Get(os.ReadDir("."))(t), "nothing is written elsewhere")
}

// A registry on this machine that has TLS gets a clear error.
func TestALocalRegistryWithTLSIsRefused(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	place := musttest.Get(oci.Open(t.Context(), oci.Options{Where: oci.Scheme + host + "/a:v1", Create: true}))(t)
	_, err := place.Resolve(t.Context(), "v1")
	t.Log(err, fault.As(err).Hint)
	assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(fault.As(err).Hint, "without TLS"), "%v", err)
}
