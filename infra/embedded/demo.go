package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/unweaver/unweaver/infra/embedded/sample"
	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/starter/cli"
)

func demoCmd() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Index the sample corpus and answer a question",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return demo(c.Context(), keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep running until Ctrl-C")
	return c
}

// questions of the demo: asked of real passages, answered by built-in models. The first needs two passages, one of
// which shares hardly a word with it: the classes that both mention lead there.
var questions = []string{
	"Who was the first president of the association which published Journal of Psychotherapy Integration?",
	"In which county is Johnnycake, West Virginia located?",
}

func demo(ctx context.Context, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "unweaver-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := scratch.Use(dir); err != nil {
		return err
	}
	docs := filepath.Join(dir, "corpus")
	n, err := sample.Write(docs)
	if err != nil {
		return err
	}
	begin := time.Now()
	s, err := stack.Start(
		ctx,
		stack.Options{
			DataDir: filepath.Join(dir, "data"),
			Config:  config.Default(),
			Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Phase:   func(p string) { fmt.Println("starting", p) },
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	fmt.Printf(
		"ready in %.1f s\n\nindexing %d passages of Wikipedia with built-in models (no key, no network)\n",
		time.Since(begin).Seconds(),
		n,
	)
	spec, err := config.Default().Spec("demo", docs)
	if err != nil {
		return err
	}
	run, err := s.Control.Index(ctx, ops.IndexRequest{Spec: spec})
	if err != nil {
		return err
	}
	if err := follow(ctx, s, run.Run); err != nil {
		return err
	}
	for _, q := range questions {
		fmt.Printf("\n── question: %s\n\n", q)
		raw, err := cli.Ask(
			ctx,
			s.HTTP,
			"demo",
			map[string]any{"query": q, "answer": true, "explain": true, "top_chunks": 5},
		)
		if err != nil {
			return err
		}
		var answer cli.Answer
		if err := json.Unmarshal(raw, &answer); err != nil {
			return err
		}
		cli.ShowAnswer(os.Stdout, answer)
	}
	fmt.Printf("\nYour own documents: bin/unweaver dev, then bin/unweaver index FOLDER --index docs --wait\n")
	if !keep {
		return nil
	}
	fmt.Printf("Web page: %s (Ctrl-C ends it)\n", s.HTTP)
	<-ctx.Done()
	return nil
}

// follow prints a line for each stage and the counts at the end.
func follow(ctx context.Context, s *stack.Stack, run string) error {
	last := ""
	for {
		st, err := s.Control.Status(ctx, run)
		if err != nil && !fault.Is(err, fault.RunNotFound) {
			return err
		}
		if err == nil && st.Stage != last && st.Stage != "" {
			last = st.Stage
			fmt.Printf("  %3.0f %%  %s\n", 100*st.Overall, st.Stage)
		}
		if err == nil && corpus.Terminal(st.Status) {
			fmt.Printf(
				"  %s in %.1f s: %d documents, %d chunks, %d classes [%s]\n",
				st.Status,
				st.Seconds,
				st.Documents,
				st.Chunks,
				st.Classes,
				st.Models.Chat,
			)
			if st.Status != corpus.StatusCompleted {
				return fault.Internal.At("index the sample", run).Because(st.Reason + " " + st.Detail)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
