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
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/starter/cli"
)

func demoCmd() *cobra.Command {
	var keep, explain bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Index the sample corpus and answer a question",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return demo(c.Context(), keep, explain) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep the web page open until Ctrl-C")
	c.Flags().BoolVar(&explain, "explain", false, "show where every result comes from, as tables")
	return c
}

// asked is a question of the demo with its answer, as the dataset that the sample comes from has it.
type asked struct{ question, answer string }

// questions of the demo: asked of real passages, answered by built-in models. The first needs two passages, one of
// which shares hardly a word with it: the classes that both mention lead there.
var questions = []asked{
	{
		"Who was the first president of the association which published Journal of Psychotherapy Integration?",
		"G. Stanley Hall",
	},
	{"In which county is Johnnycake, West Virginia located?", "McDowell County"},
}

func demo(ctx context.Context, keep, explain bool) (err error) {
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
	run, err := s.Control.Index(ctx, service.IndexRequest{Spec: spec})
	if err != nil {
		return err
	}
	if err := follow(ctx, s, run.Run); err != nil {
		return err
	}
	for _, asked := range questions {
		if err := ask(ctx, s.HTTP, asked, explain); err != nil {
			return err
		}
	}
	command := filepath.Join(filepath.Dir(os.Args[0]), "unweaver") // which started this program, from beside it
	fmt.Printf("\nYour own documents: %s dev, then %[1]s index FOLDER --index docs --wait\n", command)
	if !keep {
		fmt.Printf("This as a web page, kept open: %s demo --keep\n", command)
		return nil
	}
	fmt.Printf("Web page: %s (Ctrl-C ends it)\n", s.HTTP)
	<-ctx.Done()
	return nil
}

// ask shows one question, what comes back, and what is to be learnt from it.
func ask(ctx context.Context, server string, asked asked, explain bool) error {
	fmt.Printf("\n── question: %s\n\n", asked.question)
	body := map[string]any{"query": asked.question, "answer": true, "explain": true, "top_chunks": 5}
	raw, err := cli.Ask(ctx, server, "demo", body)
	if err != nil {
		return err
	}
	var answer cli.Answer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	lesson := cli.Lesson(answer, asked.answer)
	if !explain {
		answer.Explain = nil
	}
	cli.ShowAnswer(os.Stdout, answer)
	if lesson != "" {
		fmt.Printf("\n%s\n", lesson)
	}
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
		if err == nil && core.Terminal(st.Status) {
			fmt.Printf(
				"  %s in %.1f s: %d documents, %d chunks, %d classes [%s]\n",
				st.Status,
				st.Seconds,
				st.Documents,
				st.Chunks,
				st.Classes,
				st.Models.Chat,
			)
			if st.Status != core.StatusCompleted {
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
