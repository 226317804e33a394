// Command unweaver is the command line: see starter/cli. It speaks to the embedded stack and to query-api; where
// Temporal and the stores are servers, it hands over to unweaver-cluster, which has their clients.
package main

import (
	"context"
	"os"

	"github.com/unweaver/unweaver/starter/cli"
)

func main() {
	app := &cli.App{Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}
	os.Exit(app.Run(context.Background(), os.Args[1:]))
}
