// Command pull finds or fetches the engine's program, prints its path, and holds nothing else: it is compiled first, so
// that the engine comes while the rest is compiled.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := devserver.Finder{Say: func(line string) { fmt.Fprintln(os.Stderr, line) }}.Find(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the context ends with the process
	}
	fmt.Println(path)
}
