//go:build linux && !amd64 && !arm64

package sandbox

func filterSyscalls() error { return nil }
