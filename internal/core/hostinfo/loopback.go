package hostinfo

import (
	"net"
	"strings"
)

// IsLoopback reports whether a host without a port is this machine: localhost, or a loopback address, also in brackets.
func IsLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}
