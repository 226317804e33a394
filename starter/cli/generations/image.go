package generations

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/store/oci"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) pushCmd() *cobra.Command {
	return a.imageCmd(core.TransferPush, "push PLACE INDEX[@GEN]",
		"Push a generation to a registry, a folder or a tar file, as an OCI image", `Push the current generation of an
index, or GEN, to PLACE: oci://HOST/NAME:TAG, a file whose name ends in .tar, or a folder. Each file of the generation
is one blob, and blobs that PLACE has are not sent: a second night sends what changed. Paid results (the ledger) are
not part of an image. Accounts are those of docker login; a registry on this machine is asked by HTTP.`,
		"  unweaver push oci://ghcr.io/acme/handbook:2026-11-27 handbook\n"+
			"  unweaver push oci://localhost:5000/handbook:latest handbook@20261122t020000z --sign-key key.pem\n"+
			"  unweaver export handbook.tar handbook")
}

func (a app) pullCmd() *cobra.Command {
	return a.imageCmd(core.TransferPull, "pull PLACE INDEX",
		"Pull an index from a registry, a folder or a tar file and serve it, without model calls", `Fetch an image into
an index, fill the stores, and serve it. PLACE is oci://HOST/NAME:TAG, or a folder or tar file in OCI layout. Every
file is compared with its digest, files that the store has are not fetched, and nothing is served before everything is
proven. After an interruption the same command continues. No model is called.

The index is read-only: builds are refused until you pull with --adopt. An index that is built here, or from another
corpus, is replaced only with --force.`,
		"  unweaver pull oci://ghcr.io/acme/handbook:2026-11-27 handbook --verify-key key.pub\n"+
			"  unweaver import handbook.tar handbook --adopt")
}

func (a app) verifyCmd() *cobra.Command {
	return a.imageCmd(core.TransferVerify, "verify PLACE",
		"Compare every file of an image with its digest, and prove its signature", `Read every file of an image and
compare it with its digest. PLACE is oci://HOST/NAME:TAG, or a folder or tar file in OCI layout. With --verify-key, also
prove that this key signed it. Nothing is written.`,
		"  unweaver verify oci://ghcr.io/acme/handbook:2026-11-27 --verify-key key.pub\n  unweaver verify handbook.tar")
}

// imageCmd returns a command that moves an image, or verifies one.
func (a app) imageCmd(action, use, short, long, example string) *cobra.Command {
	request := core.ImageRequest{Action: action}
	_, arguments, _ := strings.Cut(use, " ")
	count := len(strings.Fields(arguments))
	command := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: console.RequireArgs(count, count, arguments),
		RunE: func(command *cobra.Command, args []string) error {
			request.Where = args[0]
			if count == 2 {
				request.Index = args[1]
			}
			if action == core.TransferPush {
				request.Index, request.Generation, _ = strings.Cut(args[1], "@")
			}
			return a.moveImage(command.Context(), request)
		},
	}
	flags := command.Flags()
	if action == core.TransferPush {
		command.Aliases = []string{"export"}
		flags.StringVar(&request.Key, "sign-key", "", "sign with this private key (ECDSA P-256, PEM), in cosign's format")
		return a.AddAuditFlags(command)
	}
	flags.StringVar(&request.Key, "verify-key", "", "refuse an image that this public key (PEM) did not sign")
	if action == core.TransferVerify {
		return command
	}
	command.Aliases = []string{"import"}
	flags.BoolVar(&request.Adopt, "adopt", false, "let builds change the index from now on")
	flags.BoolVar(&request.Force, "force", false, "replace an index that is built here, or from another corpus")
	return a.AddAuditFlags(command)
}

// moveImage moves an image where the stores are, or verifies one in this process.
func (a app) moveImage(ctx context.Context, request core.ImageRequest) error {
	_, local, err := oci.ParseAddress(request.Where)
	if err != nil {
		return err
	}
	if local { // another process may read it
		request.Where, err = filepath.Abs(request.Where)
	}
	if err == nil && request.Key != "" {
		request.Key, err = filepath.Abs(request.Key)
	}
	if err != nil {
		return err
	}
	if request.Action == core.TransferVerify {
		mover := &image.Mover{ImageRequest: request}
		read := func(context.Context) (core.Transfer, error) { return mover.Progress(), nil }
		return a.watchTransfer(ctx, mover.Move, read)
	}
	return a.WithControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		move := func(ctx context.Context) (core.Transfer, error) { return controller.MoveImage(ctx, request) }
		read := func(ctx context.Context) (core.Transfer, error) { return controller.ReadTransfer(ctx, request) }
		return a.watchTransfer(ctx, move, read)
	})
}

// watchTransfer shows every second how far a transfer is, and then what it came to.
func (a app) watchTransfer(ctx context.Context, move, read func(context.Context) (core.Transfer, error)) error {
	bar := show.NewBar(a.Err, a.JSON)
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for retry.Wait(watched, time.Second) == nil {
			if now, err := read(watched); err == nil { // the transfer itself says what is wrong
				bar.ShowTransfer(now)
			}
		}
	})
	out, err := move(ctx)
	stop()
	watching.Wait()
	bar.EndStatus()
	if err != nil {
		return err
	}
	return a.PrintOut(out, func(w io.Writer) { showTransfer(w, out) })
}

// showTransfer prints what a transfer came to.
func showTransfer(w io.Writer, out core.Transfer) {
	what := map[string]string{
		core.TransferPush: "pushed", core.TransferPull: "now serves", core.TransferVerify: "verified",
	}[out.Action]
	if out.Unchanged {
		what = "already serves"
	}
	fmt.Fprintf(w, "%s %s %s: %d files, %s, of which %s moved, in %s\n", out.Index, what, out.Generation, out.Files,
		core.FormatSize(out.Bytes), core.FormatSize(out.Moved),
		time.Duration(out.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	fmt.Fprintf(w, "  image:  %s@%s\n", out.Place, out.Digest)
	if out.Signed {
		fmt.Fprintln(w, "  signed: yes")
	}
	if out.Action == core.TransferPull && !out.Adopted {
		fmt.Fprintln(w, "  builds: refused; to allow them, add --adopt")
	}
}
