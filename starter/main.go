// Command unweaver is the command line: see starter/cli.
package main

import (
	"context"
	"os"

	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/starter/cli"
)

func main() {
	sandbox.RunChild()
	app := &cli.App{Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}
	os.Exit(app.Run(context.Background(), os.Args[1:]))
}
