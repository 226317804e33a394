//go:build !linux

package main

import "syscall"

// endsWithParent does nothing here: a child sees by its standard input that its parent is gone.
func endsWithParent() *syscall.SysProcAttr { return nil }
