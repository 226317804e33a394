// Command unweaver-cluster is the command line with the clients of Temporal and of the stores: unweaver hands over to
// it where these are servers. It takes the same arguments and does the same.
package main

import (
	"context"
	"os"

	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cluster/servers"
)

func main() {
	sandbox.Child()
	app := &cli.App{Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Servers: servers.Clients()}
	os.Exit(app.Run(context.Background(), os.Args[1:]))
}
