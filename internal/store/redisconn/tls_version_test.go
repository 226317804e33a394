package redisconn

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestServersAreSpokenToInTLS12OrNewer(t *testing.T) {
	for _, uri := range []string{"rediss://one.example:6379", "rediss+cluster://one.example:6379,two.example:6379"} {
		made := musttest.Get(newClient(uri))(t)
		var settings *tls.Config
		switch made := made.(type) {
		case *redis.Client:
			settings = made.Options().TLSConfig
		case *redis.ClusterClient:
			settings = made.Options().TLSConfig
		}
		assert.True(t, settings != nil && settings.MinVersion >= tls.VersionTLS12 && !settings.InsecureSkipVerify,
			"%s: %+v", uri, settings)
		assert.NoError(t, made.Close())
	}
}
