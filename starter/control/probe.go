package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/unweaver/unweaver/internal/blob"
	"github.com/unweaver/unweaver/internal/fault"
)

// conditional proves that the artifact store honours If-None-Match and If-Match: the lease and the pointer rest on them.
func conditional(ctx context.Context, s *Service) (string, error) {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails
	key := "doctor/" + hex.EncodeToString(raw)
	st := s.Stores.Artifacts
	defer func() { _ = st.Delete(context.WithoutCancel(ctx), key) }()
	lacks := func(what string) error {
		return fault.New(fault.StoreDenied, fault.Fatal, "probe", st.Location(key), "the store ignores "+what, "use a store with conditional writes (stores.artifacts)")
	}
	in, err := blob.Write(ctx, st, key, []byte("1"), blob.Cond{Absent: true})
	if err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, st, key, []byte("2"), blob.Cond{Absent: true}); !fault.Is(err, fault.Precondition) {
		return "", lacks("If-None-Match")
	}
	if _, err := blob.Write(ctx, st, key, []byte("3"), blob.Cond{Match: in.ETag}); err != nil {
		return "", err
	}
	if _, err := blob.Write(ctx, st, key, []byte("4"), blob.Cond{Match: in.ETag}); !fault.Is(err, fault.Precondition) {
		return "", lacks("If-Match")
	}
	return "If-None-Match and If-Match hold", nil
}
