package dev

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
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
	if console.IsURL(address) || !isConfigured(cfg, "query_api.address") {
		return flag, "", nil
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return flag, "", nil //nolint:nilerr // validation of the configuration says so
	}
	wanted, err := strconv.Atoi(text)
	if err != nil {
		return flag, "", nil //nolint:nilerr // as above
	}
	if host == "localhost" || host == "127.0.0.1" {
		if given && wanted != flag {
			return flag, fmt.Sprintf("--http-port %d overrides query_api.address %s", flag, address), nil
		}
		return wanted, "", nil
	}
	if at, err := netip.ParseAddr(host); !given && err == nil && at.IsLoopback() {
		flag = wanted
	}
	return flag, fmt.Sprintf("query_api.address %s is ignored: unweaver dev serves only 127.0.0.1:%d; for access from "+
		"other machines use a proxy, or run query-api", address, flag), nil
}

// isConfigured reports whether a key was given, by whatever means.
func isConfigured(cfg *config.Config, key string) bool {
	return slices.ContainsFunc(cfg.Settings(), func(setting config.Setting) bool {
		return setting.Key == key && setting.Origin != config.FromDefault
	})
}
