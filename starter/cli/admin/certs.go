package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
)

// clientName is who the certificate of clients says that they are.
const clientName = "unweaver"

func (a app) certsCmd() *cobra.Command {
	command := &cobra.Command{Use: "certs", Short: "Create certificates and the codec key for your own Temporal server"}
	command.AddCommand(a.createCertsCmd(), a.codecKeyCmd())
	return command
}

func (a app) codecKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "codec-key FILE",
		Short:   "Create the key that encrypts payloads in Temporal",
		Example: "  unweaver certs codec-key codec.key",
		Long: `Create the key of engine.codec_key_file. Workers and command lines then encrypt what they exchange through
Temporal, and refuse what is not encrypted with this key. Give every program of the installation a copy with mode
0600. If the file already exists, it is kept.`,
		Args: console.RequireArgs(1, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := codec.Create(args[0], "")
			if err != nil {
				return err
			}
			return a.PrintOut(map[string]string{"file": args[0], "key": key.ID}, func(w io.Writer) {
				fmt.Fprintf(w, "%s contains key %s; set engine.codec_key_file to this path\n", args[0], key.ID)
			})
		},
	}
}

func (a app) createCertsCmd() *cobra.Command {
	var hosts []string
	var days int
	var force bool
	command := &cobra.Command{
		Use:     "create DIR --host NAME",
		Short:   "Create a certificate authority, and certificates of a server and its clients, in a folder",
		Example: "  unweaver certs create certs --host temporal.example",
		Long: `Create a certificate authority, a certificate of a server (Temporal) and one of its clients (worker,
query-api, command line) in a folder that only its owner can read: ca.pem, ca-key.pem, server.pem, server-key.pem,
client.pem, client-key.pem.

Clients use engine.tls_ca, engine.tls_cert and engine.tls_key. With ca-key.pem anyone can create certificates that
the server accepts. No server or client needs this file: store it elsewhere, or delete it.`,
		Args: console.RequireArgs(1, 1, "one DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(hosts) == 0 {
				return fault.Usage.At("run unweaver", "certs create").
					Because("no host is given").
					Advise("add --host for each name or address that clients use")
			}
			if days < 1 || days > 3650 {
				return fault.Usage.At("run unweaver", "certs create").Because("--days: want 1 to 3650")
			}
			return a.createCerts(args[0], hosts, time.Duration(days)*24*time.Hour, force)
		},
	}
	command.Flags().StringArrayVar(&hosts, "host", nil, "name or address of the server; may be given several times")
	command.Flags().IntVar(&days, "days", 825, "validity of the certificates")
	command.Flags().BoolVar(&force, "force", false, "replace existing certificates; clients then need the new ones")
	return command
}

func (a app) createCerts(folder string, hosts []string, valid time.Duration, force bool) error {
	files, err := newCertificates(hosts, valid)
	if err != nil {
		return fault.Internal.At("make certificates of", hosts[0]).Because(err)
	}
	err = pki.Write(folder, files, force)
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrExist) && errors.As(err, &path):
		return fault.Usage.At("write", path.Path).
			Because("the file already exists").
			Advise("name another folder, or add --force to replace all files")
	case err != nil:
		return fault.StoreDenied.At("write certificates in", folder).Because(err).Advise("name another folder")
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, filepath.Join(folder, file.Name))
	}
	return a.PrintOut(map[string]any{"written": names}, func(w io.Writer) {
		for _, name := range names {
			fmt.Fprintln(w, "written:", name)
		}
	})
}

func newCertificates(hosts []string, valid time.Duration) ([]pki.File, error) {
	authority, err := pki.New("unweaver "+hosts[0], valid)
	if err != nil {
		return nil, err
	}
	server, err := authority.IssueServer(hosts, valid)
	if err != nil {
		return nil, err
	}
	client, err := authority.IssueClient(clientName, valid)
	if err != nil {
		return nil, err
	}
	return []pki.File{
		{Name: pki.AuthorityFile, Content: authority.Pair().Cert},
		{Name: pki.AuthorityKeyFile, Content: authority.Pair().Key},
		{Name: pki.ServerFile, Content: server.Cert}, {Name: pki.ServerKeyFile, Content: server.Key},
		{Name: pki.ClientFile, Content: client.Cert}, {Name: pki.ClientKeyFile, Content: client.Key},
	}, nil
}
