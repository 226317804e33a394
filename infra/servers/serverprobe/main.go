// Command serverprobe reports by its exit code whether a server answers on its protocol: a port that is open says
// little.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/milvus-io/milvus-proto/go-api/v2/milvuspb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/engine"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: serverprobe milvus|temporal HOST:PORT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := probeServer(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the context ends with the process
	}
}

func probeServer(ctx context.Context, kind, address string) error {
	if kind == "temporal" {
		c, err := engine.Dial(ctx, config.Engine{Address: address, Namespace: "default"}, slog.New(slog.DiscardHandler))
		if err == nil {
			c.Close()
		}
		return err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	response, err := milvuspb.NewMilvusServiceClient(conn).CheckHealth(ctx, &milvuspb.CheckHealthRequest{})
	if err != nil {
		return err
	}
	if !response.GetIsHealthy() {
		return fmt.Errorf("not healthy: %v", response.GetReasons())
	}
	return nil
}
