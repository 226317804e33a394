// Package tembed runs Temporal's server in this process on one SQLite file with a write-ahead log that is synced at
// every commit: neither a killed process nor a loss of power takes back what the server acknowledged
// (docs/decisions/0008-power-loss.md). It is pinned to one server version per file, since this path has no schema
// migration.
package tembed

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqlite "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/fault"
)

// Server is a running server.
type Server struct {
	srv     temporal.Server
	dir     string
	keep    bool
	ports   []int
	Address string
	Client  *tls.Config // what its clients connect with: it lets in nobody else
}

// Options of a server.
type Options struct {
	Dir  string // of temporal.db and of the certificates
	Port int    // of the frontend, on 127.0.0.1; 0 = any free
	Keep bool   // certificates stay when it stops: for clients in other processes, which go on after a restart
}

const (
	localhost = "127.0.0.1"
	clusterID = "active"
	// Namespace is made at the first start.
	Namespace = "default"
)

// Start starts a server over a data directory. All of its ports ask for a certificate: the frontend for a client's,
// which lies in the data directory for its owner alone, those behind it for one that only this process has.
func Start(options Options) (*Server, error) {
	dir := options.Dir
	db := filepath.Join(dir, "temporal.db")
	if err := version(dir); err != nil {
		return nil, err
	}
	if err := tidy(db); err != nil {
		return nil, err
	}
	ports, err := freePorts(options.Port)
	if err != nil {
		return nil, err
	}
	store := &config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      db,
		ConnectAttributes: attributes(),
	}
	if err := prepare(db, store); err != nil {
		return nil, err
	}
	certs, client, err := certificates(dir, options.Keep)
	if err != nil {
		return nil, err
	}
	cfg := configure(store, ports)
	logPath := filepath.Join(dir, "temporal.log")
	if err := touch(logPath, 0); err != nil {
		return nil, fault.StoreDenied.At("write", logPath).Because(err)
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: "warn", OutputFile: logPath}))
	hosts := map[primitives.ServiceName]static.Hosts{}
	for i, s := range services {
		hosts[s] = static.SingleLocalHost(fmt.Sprintf("%s:%d", localhost, ports[i]))
	}
	dc := dynamicconfig.StaticClient{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():           1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():          1,
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key():      true,
		dynamicconfig.MatchingEnableFairness.Key():                       true, // by priority.weight of an index
		dynamicconfig.FrontendRPS.Key():                                  20000,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():           20000,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 1000,
		dynamicconfig.HistoryRPS.Key():                                   20000,
		dynamicconfig.MatchingRPS.Key():                                  20000,
	}
	srv, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithStaticHosts(
			hosts,
		),
		temporal.WithDynamicConfigClient(dc),
		temporal.WithTLSConfigFactory(certs),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(
			func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() },
		),
	)
	if err != nil {
		return nil, fmt.Errorf("make Temporal server: %w", err)
	}
	if err := srv.Start(); err != nil {
		return nil, fmt.Errorf("start Temporal server: %w", err)
	}
	return &Server{
		srv: srv, dir: dir, keep: options.Keep, ports: ports, Client: client,
		Address: fmt.Sprintf("%s:%d", localhost, ports[0]),
	}, nil
}

// Ports are all that it listens on, the frontend's first.
func (s *Server) Ports() []int { return s.ports }

// Stop stops the server, and takes its certificates away unless they are kept.
func (s *Server) Stop() error {
	err := s.srv.Stop()
	if !s.keep {
		err = errors.Join(err, pki.Remove(filepath.Join(s.dir, CertsFolder)))
	}
	return err
}

var services = []primitives.ServiceName{
	primitives.FrontendService,
	primitives.HistoryService,
	primitives.MatchingService,
	primitives.WorkerService,
}

// freePorts gives one port a service; the first is the asked one.
func freePorts(first int) ([]int, error) {
	var ports []int
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for i := range services {
		p := 0
		if i == 0 {
			p = first
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", localhost, p))
		if err != nil {
			return nil, fault.PortTaken.At("listen on", fmt.Sprintf("%s:%d", localhost, p)).
				Because(err).
				Advise("another program has the port: choose one with --temporal-port (0 = any free)")
		}
		open = append(open, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func configure(store *config.SQL, ports []int) *config.Config {
	cfg := &config.Config{}
	cfg.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: localhost}
	cfg.Persistence = config.Persistence{
		DefaultStore:     sqlite.PluginName,
		VisibilityStore:  sqlite.PluginName,
		NumHistoryShards: 1,
		DataStores:       map[string]config.DataStore{sqlite.PluginName: {SQL: store}},
	}
	frontend := fmt.Sprintf("%s:%d", localhost, ports[0])
	cfg.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterID,
		CurrentClusterName:       clusterID,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterID: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
		},
	}
	cfg.DCRedirectionPolicy = config.DCRedirectionPolicy{Policy: "noop"}
	cfg.Services = map[string]config.Service{}
	for i, s := range services {
		cfg.Services[string(s)] = config.Service{RPC: config.RPC{GRPCPort: ports[i], BindOnLocalHost: true}}
	}
	cfg.Archival = config.Archival{
		History:    config.HistoryArchival{State: "disabled"},
		Visibility: config.VisibilityArchival{State: "disabled"},
	}
	cfg.NamespaceDefaults = config.NamespaceDefaults{
		Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		},
	}
	cfg.PublicClient = config.PublicClient{HostPort: frontend}
	return cfg
}
