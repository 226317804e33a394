// Command unweaver is the command line: see starter/cli.
package main

import (
	"context"
	"os"

	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cli/console"
)

func main() {
	sandbox.RunChild()
	app := &console.App{Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}
	os.Exit(cli.Run(context.Background(), app, os.Args[1:]))
}
