package redisconn

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestServersAreSpokenToInTLS12OrNewer(t *testing.T) {
	for _, uri := range []string{"rediss://one.example:6379", "rediss+cluster://one.example:6379,two.example:6379"} {
		made, err := client(uri)
		if err != nil {
			t.Fatal(err)
		}
		var settings *tls.Config
		switch made := made.(type) {
		case *redis.Client:
			settings = made.Options().TLSConfig
		case *redis.ClusterClient:
			settings = made.Options().TLSConfig
		}
		if settings == nil || settings.MinVersion < tls.VersionTLS12 || settings.InsecureSkipVerify {
			t.Errorf("%s: %+v", uri, settings)
		}
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	}
}
