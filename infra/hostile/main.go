// Command hostile hands damaged and malicious input to the parts that read what others wrote, and counts what becomes
// of them.
//
//	go run ./infra/hostile documents -n 12000 -seed 1               small samples of every kind, damaged
//	go run ./infra/hostile documents -dir FOLDER -kinds pdf -n 12000 the files of a folder, damaged
//	go run ./infra/hostile pills -large                              the crafted documents, at full size
//
// It ends with 1 where an input ended or outlived the process that reads it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
)

// settings of one run.
type settings struct {
	dir     string        // of files to damage; empty: the samples of package documenttest
	kinds   string        // only these, with commas; empty: all
	count   int           // inputs of each kind
	seed    uint64        // the same seed makes the same inputs
	workers int           // inputs at once
	limit   time.Duration // that one input may take
	total   time.Duration // that all may take; what is not done by then is not counted
	slow    time.Duration // inputs that take longer are named, and kept as those that did harm; 0: none
	keep    string        // folder for inputs that did harm
	large   bool          // pills at full size
	json    bool
}

func main() {
	sandbox.Child()
	if len(os.Args) > 1 && os.Args[1] == childName {
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	harm, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(2)
	}
	if harm > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (harm int, err error) {
	var s settings
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", "", "folder of files to damage; empty: small samples")
	flags.StringVar(&s.kinds, "kinds", "", "only these kinds, of "+kindsRead())
	flags.IntVar(&s.count, "n", 500, "inputs of each kind")
	flags.Uint64Var(&s.seed, "seed", 1, "the same seed makes the same inputs")
	flags.IntVar(&s.workers, "workers", runtime.GOMAXPROCS(0), "inputs at once")
	flags.DurationVar(&s.limit, "limit", document.DefaultLimits().Time, "how long one input may take")
	flags.DurationVar(&s.total, "for", time.Hour, "how long all may take")
	flags.DurationVar(&s.slow, "slow", 0, "name inputs that take longer, too; 0: none")
	flags.StringVar(&s.keep, "keep", "", "folder for inputs that did harm")
	flags.BoolVar(&s.large, "large", false, "pills at full size")
	flags.BoolVar(&s.json, "json", false, "print JSON, not a table")
	if len(args) == 0 {
		return 0, errors.New("say what to try: documents or pills")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.total)
	defer cancel()
	var report report
	switch args[0] {
	case "documents":
		report, err = documents(ctx, s)
	case "pills":
		report, err = pills(ctx, s)
	default:
		err = fmt.Errorf("unknown: %s; there are documents and pills", strings.Join(args, " "))
	}
	if err != nil {
		return 0, err
	}
	if s.json {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", " ")
		return report.harm(), encoder.Encode(report)
	}
	return report.harm(), report.print(out)
}
