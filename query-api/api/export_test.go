package api

import (
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/fault"
)

// Tellable reports whether errors of a code, wherever they come from, are asked to everybody.
func Tellable(code fault.Code) bool { return isCallerFault(code.At("read", "")) }

// WaitForNew lets queries wait longer for a new generation than a busy machine takes to open it.
func (c *Config) WaitForNew(patience time.Duration) { c.patience = patience }

// ReadBody reads the body of a query.
func ReadBody(raw []byte) error { return readBody(raw, new(answer.Request)) }

// CursorOf writes the cursor of a list.
var CursorOf = cursorOf
