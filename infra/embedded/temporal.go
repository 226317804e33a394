package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/tembed"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/durable"
)

// temporalCmd runs Temporal alone, for installations on one machine whose other parts are servers, and for tests.
func temporalCmd() *cobra.Command {
	var dir string
	var port int
	command := &cobra.Command{
		Use:   "temporal",
		Short: "Run Temporal alone, on SQLite, until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := durable.Private(dir); err != nil {
				return fault.Usage.At("make data directory", dir).Because(err).Advise("choose another --data-dir")
			}
			server, err := tembed.Start(dir, port)
			if err != nil {
				return err
			}
			fmt.Printf("ready: Temporal %s, data in %s\n", server.Address, dir)
			<-c.Context().Done()
			return server.Stop()
		},
	}
	command.Flags().StringVar(&dir, "data-dir", "temporal-data", "data directory")
	command.Flags().IntVar(&port, "port", 7233, "port on 127.0.0.1; 0 = any free")
	return command
}
