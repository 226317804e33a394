//go:build !linux

package sandbox_test

func intrude() {}
