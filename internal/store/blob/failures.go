package blob

import (
	"fmt"

	"github.com/unweaver/unweaver/internal/fault"
)

// Failures gathers what went wrong with some of many objects.
type Failures struct {
	first error
	count int
}

// Add counts a failure; nil is none.
func (f *Failures) Add(err error) {
	if err == nil {
		return
	}
	if f.first == nil {
		f.first = err
	}
	f.count++
}

// Err returns the first failure as a fault of its code, with the number of those that failed of all; nil for none.
func (f *Failures) Err(all int) error {
	if f.first == nil {
		return nil
	}
	first := fault.As(f.first)
	if first == nil || f.count == 1 {
		return f.first
	}
	return first.Code.At(first.Op, first.Object).Because(partial{first.Err, f.count, all}).Advise(first.Hint)
}

// partial is the first cause of several failures.
type partial struct {
	first      error
	count, all int
}

func (p partial) Error() string {
	text := fmt.Sprintf("%d of %d objects failed", p.count, p.all)
	if p.first != nil {
		text += ", the first: " + p.first.Error()
	}
	return text
}

func (p partial) Unwrap() error { return p.first }
