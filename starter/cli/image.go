package cli

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/store/oci"
)

func (a *App) pushCmd() *cobra.Command {
	return a.imageCmd(core.TransferPush, "push "+oci.Scheme+"HOST/NAME:TAG INDEX[@GEN]",
		"Push a generation to a registry, as an OCI image", `Push the current generation of an index, or GEN, to a
registry. Each file of the generation is one blob, and blobs that the repository has are not sent: a second night
sends what changed. Paid results (the ledger) are not part of an image. Accounts are those of docker login.`,
		"  unweaver push oci://ghcr.io/acme/handbook:2026-11-27 handbook\n"+
			"  unweaver push oci://localhost:5000/handbook:latest handbook@20261122t020000z --plain-http --sign-key key.pem")
}

func (a *App) exportCmd() *cobra.Command {
	return a.imageCmd(core.TransferPush, "export FILE INDEX[@GEN]",
		"Write a generation to a folder or tar file, as an OCI image", `Write the current generation of an index, or GEN,
to FILE in OCI layout: a tar file where the name ends in .tar, else a folder. A folder takes several images; what they
share is written once. The image has the tags of its generation and latest.`,
		"  unweaver export ./images handbook\n  unweaver export handbook.tar handbook@20261122t020000z")
}

func (a *App) pullCmd() *cobra.Command {
	return a.imageCmd(core.TransferPull, "pull "+oci.Scheme+"HOST/NAME:TAG INDEX",
		"Pull an index from a registry and serve it, without model calls", pullLong,
		"  unweaver pull oci://ghcr.io/acme/handbook:2026-11-27 handbook --verify-key key.pub\n"+
			"  unweaver pull oci://ghcr.io/acme/handbook:2026-11-27 handbook --adopt")
}

func (a *App) importCmd() *cobra.Command {
	return a.imageCmd(core.TransferPull, "import FILE INDEX[@GEN]",
		"Read an index from a folder or tar file and serve it, without model calls", pullLong,
		"  unweaver import ./images handbook\n  unweaver import handbook.tar handbook --adopt")
}

const pullLong = `Fetch an image into an index, fill the stores, and serve it. Every file is compared with its digest,
files that the store has are not fetched, and nothing is served before everything is proven. After an interruption the
same command continues. No model is called.

The index is read-only: builds are refused until you pull with --adopt. An index that is built here, or from another
corpus, is replaced only with --force.`

// imageCmd returns a command that moves an image.
func (a *App) imageCmd(action, use, short, long, example string) *cobra.Command {
	request := control.ImageRequest{Action: action}
	name, _, _ := strings.Cut(use, " ")
	remote := name == "push" || name == "pull"
	var ledger bool
	command := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: requireArgs(2, 2, strings.TrimPrefix(use, name+" ")),
		RunE: func(command *cobra.Command, args []string) error {
			if ledger {
				return fault.Usage.At(name, args[1]).
					Because("--with-ledger is not supported: an image has no paid results").
					Advise("leave it out; a build after --adopt reuses what is unchanged, and pays for changes")
			}
			request.Where = args[0]
			request.Index, request.Generation, _ = strings.Cut(args[1], "@")
			if strings.HasPrefix(args[0], oci.Scheme) != remote {
				return fault.Usage.At(name, fault.QuoteName(args[0])).
					Because("push and pull take " + oci.Scheme + "HOST/NAME:TAG, export and import take a path")
			}
			if err := absolutePaths(&request, remote); err != nil {
				return err
			}
			return a.moveImage(command.Context(), request)
		},
	}
	flags := command.Flags()
	if remote {
		flags.BoolVar(&request.PlainHTTP, "plain-http", false, "use HTTP; only for a registry on this machine")
	}
	if action == core.TransferPush {
		flags.StringVar(&request.Key, "sign-key", "", "sign with this private key (ECDSA P-256, PEM), in cosign's format")
		flags.BoolVar(&ledger, "with-ledger", false, "not supported yet")
	} else {
		flags.StringVar(&request.Key, "verify-key", "", "refuse an image that this public key (PEM) did not sign")
		flags.BoolVar(&request.Adopt, "adopt", false, "let builds change the index from now on")
		flags.BoolVar(&request.Force, "force", false, "replace an index that is built here, or from another corpus")
	}
	return a.addAuditFlags(command)
}

// absolutePaths makes the paths of a request absolute: another process reads them. A path has the generation as tag.
func absolutePaths(request *control.ImageRequest, remote bool) (err error) {
	if !remote {
		request.Tag = request.Generation
		if request.Where, err = filepath.Abs(request.Where); err != nil {
			return err
		}
	}
	if request.Key != "" {
		request.Key, err = filepath.Abs(request.Key)
	}
	return err
}

// moveImage moves an image and shows how far it is.
func (a *App) moveImage(ctx context.Context, request control.ImageRequest) error {
	return a.withControl(ctx, func(ctx context.Context, controller control.Control, _ string) error {
		bar := newBar(a.Err, a.json)
		out, err := controller.MoveImage(ctx, request, bar.showTransfer)
		bar.endStatus()
		if err != nil {
			return err
		}
		return a.printOut(out, func(w io.Writer) { showTransfer(w, out) })
	})
}

// showTransfer draws how far a transfer is.
func (b *bar) showTransfer(now core.Transfer) {
	if now.Total == 0 || b.quiet && !b.terminal {
		return
	}
	full := int(now.Done * barWidth / now.Total)
	rate := float64(now.Done) / max(now.Seconds, 0.001)
	line := fmt.Sprintf("[%s%s] %3d %%  %-8s %s of %s  %s/s", strings.Repeat("#", full),
		strings.Repeat(".", barWidth-full), 100*now.Done/now.Total, now.Stage, core.FormatSize(now.Done),
		core.FormatSize(now.Total), core.FormatSize(int64(rate)))
	if now.Done > now.Total/20 { // the first pieces say little
		line += "  " + durationOf(float64(now.Total-now.Done)/rate) + " left"
	}
	b.draw(now.Stage, line)
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

func (a *App) verifyCmd() *cobra.Command {
	var options oci.Options
	var key string
	command := &cobra.Command{
		Use:   "verify IMAGE",
		Short: "Compare every file of an image with its digest, and prove its signature",
		Long: `Read every file of an image and compare it with its digest. IMAGE is oci://HOST/NAME:TAG, or a folder or tar
file in OCI layout. With --verify-key, also prove that this key signed it. Nothing is written.`,
		Example: "  unweaver verify oci://ghcr.io/acme/handbook:2026-11-27 --verify-key key.pub\n" +
			"  unweaver verify handbook.tar",
		Args: requireArgs(1, 1, "an IMAGE"),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, began := command.Context(), time.Now()
			options.Where = args[0]
			place, err := oci.Open(ctx, options)
			if err != nil {
				return err
			}
			var public *ecdsa.PublicKey
			if key != "" {
				if public, err = image.ReadVerifyingKey(key); err != nil {
					return err
				}
			}
			found, err := image.Read(ctx, place, public)
			if err != nil {
				return err
			}
			bar := newBar(a.Err, a.json)
			out, err := image.Verify(ctx, place, found, &image.Meter{Report: bar.showTransfer})
			if bar.endStatus(); err != nil {
				return err
			}
			out.Seconds = time.Since(began).Seconds()
			return a.printOut(out, func(w io.Writer) { showTransfer(w, out) })
		},
	}
	command.Flags().BoolVar(&options.PlainHTTP, "plain-http", false, "use HTTP; only for a registry on this machine")
	command.Flags().StringVar(&key, "verify-key", "", "refuse an image that this public key (PEM) did not sign")
	return command
}
