package dev

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// ChoosePort returns the port of loopback on which unweaver dev serves HTTP: the flag's where it was given, else that
// of query_api.address. note says what dev does not take from the configuration; TLS, which it does not speak, fails.
func ChoosePort(cfg *config.Config, flag int, given bool) (port int, note string, err error) {
	if cfg.QueryAPI.TLS.IsOn() {
		return 0, "", fault.BadConfig.At("serve with", "query_api.tls").
			Because("unweaver dev serves plain HTTP on this machine only").
			Advise("remove query_api.tls from the configuration of unweaver dev, and put a TLS proxy " +
				"in front of it; or run query-api, which serves TLS itself")
	}
	address := cfg.QueryAPI.Address
	host, text, err := net.SplitHostPort(address)
	if err != nil || console.IsURL(address) || !cfg.IsGiven("query_api.address") {
		return flag, "", nil //nolint:nilerr // validation of the configuration says so
	}
	wanted, err := strconv.Atoi(text)
	if err != nil {
		return flag, "", nil //nolint:nilerr // as above
	}
	own := host == "localhost" || host == "127.0.0.1"
	switch at, _ := netip.ParseAddr(host); {
	case own && given && wanted != flag:
		return flag, fmt.Sprintf("--http-port %d overrides query_api.address %s", flag, address), nil
	case own:
		return wanted, "", nil
	case at.IsLoopback() && !given:
		flag = wanted
	}
	return flag, fmt.Sprintf("query_api.address %s is ignored: unweaver dev serves only 127.0.0.1:%d; for access from "+
		"other machines use a proxy, or run query-api", address, flag), nil
}
