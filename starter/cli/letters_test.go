package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestDeadLettersAreListedAndShown(t *testing.T) {
	fake := &fakeControl{letters: []core.Letter{
		{
			Chunk: "aa", Document: "a.md", Ordinal: 3, Reason: "bad_model_output", Kind: "content", Attempts: 2,
			Raw: "Sorry,\nno.", Text: "Tin.",
		},
		{
			Chunk: "bb", Document: "b.md", Reason: "model_refused", Kind: "system", Attempts: 1,
			Discarded: &core.Discarded{At: time.Unix(0, 0).UTC(), Why: "a table"},
		},
	}}
	got := run(t, fake, "dead-letters", "list", "--index", "docs")
	if !strings.Contains(got.out, "aa  content bad_model_output   2 attempts a.md, chunk 3\n") ||
		strings.Contains(got.out, "bb") || !strings.Contains(got.out, "1 dead letter, and 1 discarded (--all shows them)") {
		t.Errorf("%s%s", got.out, got.err)
	}
	if got = run(t, fake, "dead-letters", "list", "--index", "docs", "--all"); !strings.Contains(got.out,
		"b.md, chunk 0  discarded 1970-01-01: a table") {
		t.Errorf("%s", got.out)
	}
	if got = run(t, fake, "dead-letters", "show", "aa", "--index", "docs"); !strings.Contains(got.out,
		"the last answer:\n  Sorry,\n  no.\nthe chunk:\n  Tin.\n") {
		t.Errorf("%s", got.out)
	}
	for _, args := range []string{"list", "show aa", "replay aa", "discard aa"} {
		if got = run(t, fake, append([]string{"dead-letters"}, strings.Fields(args)...)...); got.exit != cli.ExitUsage ||
			!strings.Contains(got.err, "add --index NAME") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestWhatFailedIsAskedForAgain(t *testing.T) {
	fake := &fakeControl{retried: control.Run{Run: "docs/retry-1"}}
	for _, c := range []struct{ args, asked string }{
		{"retry-failed docs/g1", "retry-failed docs/g1 []"},
		{"retry-failed --index docs", "retry-failed docs []"},
		{"dead-letters replay aa bb --index docs", "retry-failed docs [aa bb]"},
		{"dead-letters discard aa --index docs --why old", "discard docs [aa] old"},
	} {
		fake.asked = nil
		got := run(t, fake, strings.Fields(c.args)...)
		if got.exit != cli.ExitDone || strings.Join(fake.asked, ";") != c.asked {
			t.Errorf("%s: %+v asked %q", c.args, got, fake.asked)
		}
	}
	if got := run(t, &fakeControl{}, "retry-failed", "docs"); !strings.Contains(got.out, "docs: nothing to ask for again") {
		t.Errorf("%s", got.out)
	}
}
