package engine

import (
	"crypto/tls"
	"testing"

	"github.com/unweaver/unweaver/internal/config"
)

func TestAnEngineIsSpokenToInTLS12OrNewer(t *testing.T) {
	settings, err := secure(config.Engine{TLS: true})
	if err != nil || settings.MinVersion < tls.VersionTLS12 {
		t.Errorf("%+v, %v", settings, err)
	}
}
