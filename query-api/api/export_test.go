package api

import "github.com/unweaver/unweaver/internal/fault"

// Tellable tells whether errors of a code, wherever they come from, are told to everybody.
func Tellable(code fault.Code) bool { return tellable(code.At("read", "")) }
