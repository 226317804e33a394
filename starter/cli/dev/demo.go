package dev

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
	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/scratch"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/cli/show"
)

func (a app) demoCmd() *cobra.Command {
	var keep bool
	command := &cobra.Command{
		Use:     "demo",
		Short:   "Index the sample corpus on the embedded stack and answer a question",
		Example: "  unweaver demo\n  unweaver demo --keep",
		Args:    console.RequireArgs(0, 0, "no argument"),
		RunE: func(command *cobra.Command, _ []string) error {
			return hostStack(func() error { return a.runDemo(command.Context(), keep) })
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "keep the stack and its web page running until Ctrl-C")
	return command
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

// runDemo indexes the sample on a stack of its own and asks the questions.
func (a app) runDemo(ctx context.Context, keep bool) (err error) {
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
	s, err := stack.Start(ctx, stack.Options{
		DataDir: filepath.Join(dir, "data"), Config: config.Default(), Log: a.newLogger(slog.LevelWarn),
		Phase: a.printPhase,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(a.Out,
		"ready in %.1f s\n\nindexing %d passages of Wikipedia with built-in models (no key, no network)\n",
		time.Since(begin).Seconds(), n)
	spec, err := config.Default().Spec("demo", docs)
	if err != nil {
		return err
	}
	run, err := s.Control.BuildIndex(ctx, control.IndexRequest{Spec: spec})
	if err != nil {
		return err
	}
	st, err := a.FollowRun(ctx, control.Of(s.Control), run.ExactName(), show.NewBar(a.Out, false))
	if ctx.Err() != nil { // nothing of the run stays
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "  %s in %.1f s: %d documents, %d passages, %d entities [%s]\n", st.Status, st.Seconds,
		st.Documents, st.Chunks, st.Classes, st.Models.Chat)
	if st.Status != core.StatusCompleted {
		return fault.Internal.At("index the sample", run.Run).Because(st.Reason + " " + st.Detail)
	}
	for _, asked := range questions {
		if err := a.askDemo(ctx, s.HTTP, asked); err != nil {
			return err
		}
	}
	command := os.Args[0]
	fmt.Fprintf(a.Out, "\nTo index your own documents: %s dev, then %[1]s index FOLDER --index docs --wait\n", command)
	if !keep {
		fmt.Fprintf(a.Out, "To keep this demo open as a web page: %s demo --keep\n", command)
		return nil
	}
	fmt.Fprintf(a.Out, "Web page: %s (Ctrl-C ends it)\n", s.HTTP)
	<-ctx.Done()
	return nil
}

// askDemo shows one question, what comes back, and what is to be learnt from it.
func (a app) askDemo(ctx context.Context, server string, asked asked) error {
	fmt.Fprintf(a.Out, "\n── question: %s\n\n", asked.question)
	body := map[string]any{"query": asked.question, "answer": true, "explain": true, "top_chunks": 5}
	raw, err := console.Ask(ctx, server, "demo", body)
	if err != nil {
		return err
	}
	var got answer.Response
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}
	lesson := DescribeLesson(got, asked.answer)
	got.Explain = nil
	show.Answer(a.Out, got)
	if lesson != "" {
		fmt.Fprintf(a.Out, "\n%s\n", lesson)
	}
	return nil
}
