// Package parallel runs work side by side where order matters.
package parallel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/fault"
)

// CatchPanic recovers from the panic of work that defers it, since a panic must not end the process: it becomes the
// work's error, of code fault.Internal. The error names the kind of the panic and the functions it came through; what
// the panic says is left out, since it may hold the text that was worked on. A page of a mapped file that cannot be
// read is ErrTorn.
func CatchPanic(err *error) {
	if cause := recover(); cause != nil {
		if _, torn := cause.(interface{ Addr() uintptr }); torn {
			*err = fault.SegmentDamage.At("read a mapped file", listFunctions()).Because(ErrTorn).
				Advise("run: unweaver restore --all")
			return
		}
		kind := fmt.Sprintf("%T", cause)
		if _, ok := cause.(runtime.Error); ok {
			kind += " (" + withoutValues(cause.(error)) + ")"
		}
		*err = fault.Internal.At("work on an item", listFunctions()).
			Because("panic: " + kind).
			Advise("this is a fault of the program: report it with this text")
	}
}

// ErrTorn is the cause of a fault.SegmentDamage by a page of a mapped file that cannot be read: something else than
// this program cut the file, or its disk fails.
var ErrTorn = errors.New("a page of it cannot be read: the file was cut while it was open")

// GuardMapped calls f, which reads mapped files. Without it a page that cannot be read ends the process (SIGBUS).
func GuardMapped(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer CatchPanic(&err)
	return f()
}

// withoutValues returns the message of a runtime error: its numbers are indexes and lengths, and it quotes no content.
func withoutValues(err error) string {
	text := strings.TrimPrefix(err.Error(), "runtime error: ")
	text, _, _ = strings.Cut(text, ": ") // an interface conversion names types behind it; a custom error anything
	return text
}

// listFunctions returns the innermost functions of the stack that panicked, without their arguments.
func listFunctions() string {
	const most = 8
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(4, callers)]) // behind functions, Caught and the panic
	var names []string
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !strings.HasPrefix(frame.Function, "runtime.") {
			name := frame.Function[strings.LastIndexByte(frame.Function, '/')+1:]
			names = append(names, fmt.Sprintf("%s:%d", name, frame.Line))
		}
		if !more || len(names) == most {
			return strings.Join(names, " < ")
		}
	}
}

// callSafely calls f and makes an error of its panic, as Mapped does.
func callSafely[A, B any](ctx context.Context, f func(context.Context, A) (B, error), item A) (value B, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer CatchPanic(&err)
	return f(ctx, item)
}

// MapOrdered applies f to every item, at most width at once, and yields the results in the order of the items. It stops
// at the first error of the source, of f or of ctx, or when the consumer does; what it started has ended by then. The
// source must end when ctx does, where it may block. A panic of f or of the source is an error (Caught).
func MapOrdered[A, B any](
	ctx context.Context,
	width int,
	source iter.Seq2[A, error],
	f func(context.Context, A) (B, error),
) iter.Seq2[B, error] {
	type result struct {
		value B
		err   error
	}
	return func(yield func(B, error) bool) {
		given := ctx
		ctx, cancel := context.WithCancel(given)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		queue := make(chan chan result, max(width, 1)-1) // one more is with the consumer
		wg.Go(func() {
			defer close(queue)
			for item, err := range catchPanics(source) {
				out := make(chan result, 1)
				if err != nil {
					out <- result{err: err}
				}
				select {
				case queue <- out:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
				wg.Go(func() {
					value, err := callSafely(ctx, f, item)
					out <- result{value, err}
				})
			}
		})
		for out := range queue {
			done := <-out
			if !yield(done.value, done.err) || done.err != nil {
				return
			}
		}
		if err := given.Err(); err != nil { // its child may be cancelled only after the source saw it and ended
			var zero B
			yield(zero, err)
		}
	}
}

// Items yields the items of a list.
func Items[A any](list []A) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Batch yields the items of a source, so many at once, and at the end those that are left.
func Batch[A any](source iter.Seq2[A, error], size int) iter.Seq2[[]A, error] {
	return func(yield func([]A, error) bool) {
		var batch []A
		for item, err := range source {
			if err != nil {
				yield(nil, err)
				return
			}
			if batch = append(batch, item); len(batch) == size {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}

// Numbers yields the numbers below n.
func Numbers(n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for number := range n {
			if !yield(number, nil) {
				return
			}
		}
	}
}

// catchPanics returns a source whose panic is its last error.
func catchPanics[A any](source iter.Seq2[A, error]) iter.Seq2[A, error] {
	return func(yield func(A, error) bool) {
		stopped := false
		if err := drawItems(source, func(item A, err error) bool {
			stopped = !yield(item, err)
			return !stopped
		}); err != nil && !stopped {
			var none A
			yield(none, err)
		}
	}
}

func drawItems[A any](source iter.Seq2[A, error], yield func(A, error) bool) (err error) {
	defer CatchPanic(&err)
	source(yield)
	return nil
}

// RunTogether runs what does not depend on each other, side by side, as Each does.
func RunTogether(ctx context.Context, steps ...func(context.Context) error) error {
	return Each(ctx, len(steps), len(steps), func(ctx context.Context, i int) error { return steps[i](ctx) })
}

// Each applies f to every index below n, at most width at once, and gives the first error, having waited for all that
// it started. After an error nothing more is started. A panic of f is an error (Caught).
func Each(ctx context.Context, n, width int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(max(width, 1), n) {
		wg.Go(func() {
			for i := range next {
				_, err := callSafely(ctx, func(ctx context.Context, i int) (struct{}, error) { return struct{}{}, f(ctx, i) }, i)
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
