package artifact

import (
	"fmt"
	"runtime"
)

// GuardRead runs one step of a library that reads a file, and makes an error of its panic: the one for Parquet panics
// on files that are damaged where they have no sums. What the panic says of values is left out, as it may hold text.
func GuardRead(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("its reader panicked: %T", cause)
			if signal, ok := cause.(runtime.Error); ok {
				err = fmt.Errorf("its reader panicked: %w", signal)
			}
		}
	}()
	return read()
}
