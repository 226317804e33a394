package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/tembed"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// temporalCmd runs Temporal alone, for installations on one machine whose other parts are servers, and for tests.
func temporalCmd() *cobra.Command {
	var dir string
	var port int
	command := &cobra.Command{
		Use:   "temporal",
		Short: "Run Temporal alone, on SQLite, until Ctrl-C",
		Long: "Run Temporal alone, on SQLite, until Ctrl-C. It lets in who has the certificates of its data directory:\n" +
			"set engine.tls_ca, engine.tls_cert and engine.tls_key to ca.pem, client.pem and client-key.pem in its tls/.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := durable.Private(dir); err != nil {
				return fault.Usage.At("make data directory", dir).Because(err).Advise("choose another --data-dir")
			}
			server, err := tembed.Start(tembed.Options{Dir: dir, Port: port, Keep: true})
			if err != nil {
				return err
			}
			fmt.Printf("ready: Temporal %s, data in %s, certificates of its clients in %s\n",
				server.Address, dir, filepath.Join(dir, tembed.CertsFolder))
			<-c.Context().Done()
			return server.Stop()
		},
	}
	command.Flags().StringVar(&dir, "data-dir", "temporal-data", "data directory")
	command.Flags().IntVar(&port, "port", 7233, "port on 127.0.0.1; 0 = any free")
	return command
}
