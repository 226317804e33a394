package cli

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
)

// clientName is who the certificate of clients says that they are.
const clientName = "unweaver"

func (a *App) certsCmd() *cobra.Command {
	command := &cobra.Command{Use: "certs", Short: "Make certificates and the codec key for an engine of one's own"}
	command.AddCommand(a.createCertsCmd(), a.codecKeyCmd())
	return command
}

func (a *App) codecKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "codec-key FILE",
		Short: "Make the key that payloads are encrypted with on their way through the engine",
		Long: `Make the key of engine.codec_key_file: what workers and command lines exchange through the engine is then
encrypted, and what was not written with the key is refused. Give every program of the installation a copy with mode
0600. A key that is there already is kept.`,
		Args: requireArgs(1, 1, "one FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := codec.Create(args[0], "")
			if err != nil {
				return err
			}
			return a.printOut(map[string]string{"file": args[0], "key": key.ID}, func(w io.Writer) {
				fmt.Fprintf(w, "%s holds key %s: name it in engine.codec_key_file\n", args[0], key.ID)
			})
		},
	}
}

func (a *App) createCertsCmd() *cobra.Command {
	var hosts []string
	var days int
	var force bool
	command := &cobra.Command{
		Use:   "create DIR --host NAME",
		Short: "Make an authority and certificates of a server and its clients in a folder",
		Long: `Make an authority, a certificate of a server (Temporal) and one of its clients (worker, query-api, command
line) in a folder, for its owner alone: ca.pem, ca-key.pem, server.pem, server-key.pem, client.pem, client-key.pem.

Clients take engine.tls_ca, engine.tls_cert and engine.tls_key. Anyone who has ca-key.pem can make certificates
that are let in: no server and no client needs it, so keep it elsewhere, or remove it.`,
		Args: requireArgs(1, 1, "one DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(hosts) == 0 {
				return fault.Usage.At("run unweaver", "certs create").
					Because("no server is named").
					Advise("add --host with each name or address that clients reach it by")
			}
			if days < 1 || days > 3650 {
				return fault.Usage.At("run unweaver", "certs create").Because("--days: want 1 to 3650")
			}
			return a.createCerts(args[0], hosts, time.Duration(days)*24*time.Hour, force)
		},
	}
	command.Flags().StringArrayVar(&hosts, "host", nil, "name or address of the server; may be given several times")
	command.Flags().IntVar(&days, "days", 825, "how long they are valid")
	command.Flags().BoolVar(&force, "force", false, "replace certificates that are there: clients need the new ones")
	return command
}

func (a *App) createCerts(folder string, hosts []string, valid time.Duration, force bool) error {
	files, err := newCertificates(hosts, valid)
	if err != nil {
		return fault.Internal.At("make certificates of", hosts[0]).Because(err)
	}
	err = pki.Write(folder, files, force)
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrExist) && errors.As(err, &path):
		return fault.Usage.At("write", path.Path).
			Because("it exists, and is not overwritten").
			Advise("name another folder, or replace all of them with --force")
	case err != nil:
		return fault.StoreDenied.At("write certificates in", folder).Because(err).Advise("name another folder")
	}
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, filepath.Join(folder, file.Name))
	}
	return a.printOut(map[string]any{"written": names}, func(w io.Writer) {
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
