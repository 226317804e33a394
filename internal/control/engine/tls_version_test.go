package engine

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
)

func TestAnEngineIsSpokenToInTLS12OrNewer(t *testing.T) {
	settings, err := newTLSConfig(config.Engine{TLS: true})
	assert.True(t, err == nil && settings.MinVersion >= tls.VersionTLS12, "%+v, %v", settings, err)
}
