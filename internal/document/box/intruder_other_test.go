//go:build !linux

package box_test

func intrude() {}
