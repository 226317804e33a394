//go:build !darwin

package hostinfo

// readInstalled returns 0: other systems have it in a file.
func readInstalled() int64 { return 0 }
