package hostinfo_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core/hostinfo"
)

func TestLoopbackIsThisMachineAlone(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "[::1]": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.example.org": false, "127.0.0.1:80": false,
	} {
		assert.Equal(t, want, hostinfo.IsLoopback(host), host)
	}
}
