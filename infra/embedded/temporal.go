package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/tembed"
	"github.com/unweaver/unweaver/internal/fault"
)

// temporalCmd runs Temporal alone, for installations on one machine whose other parts are servers, and for tests.
func temporalCmd() *cobra.Command {
	var dir string
	var port int
	c := &cobra.Command{Use: "temporal", Short: "Run Temporal alone, on SQLite, until Ctrl-C", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.New(fault.StoreDenied, fault.Bad, "make data directory", dir, err, "choose another --data-dir")
		}
		s, err := tembed.Start(dir, port)
		if err != nil {
			return err
		}
		fmt.Printf("ready: Temporal %s, data in %s\n", s.Address, dir)
		<-c.Context().Done()
		return s.Stop()
	}}
	c.Flags().StringVar(&dir, "data-dir", "temporal-data", "data directory")
	c.Flags().IntVar(&port, "port", 7233, "port on 127.0.0.1; 0 = any free")
	return c
}
