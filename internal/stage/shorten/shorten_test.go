package shorten_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage/shorten"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

const threshold = 1000

type bench struct {
	*testing.T
	art    artifact.Index
	claims coordination.Claims
}

func newBench(t *testing.T) bench {
	return bench{t, artifact.Index{Store: stagetest.Must(dir.Open(t.TempDir())), Name: "i"}, memory.NewClaims()}
}

// class returns a reduced class with n mentions of about 60 runes.
func class(name string, n int) rows.Reduced {
	reduced := rows.Reduced{Name: name}
	for i := range n {
		reduced.Descriptions = append(
			reduced.Descriptions, fmt.Sprintf("%s does thing %d in place %d, they say so.", name, i, i*7),
		)
	}
	return reduced
}

func (b bench) in(chat model.Chat, classes ...rows.Reduced) shorten.In {
	slices.SortFunc(classes, func(a, b rows.Reduced) int {
		x, y := core.ClassID(a.Name), core.ClassID(b.Name)
		return strings.Compare(string(x[:]), string(y[:]))
	})
	var list []stagetest.Row
	for _, c := range classes {
		id := core.ClassID(c.Name)
		list = append(list, stagetest.Row{Key: string(id[:]), Value: string(c.Encode())})
	}
	stagetest.Rows(b, b.art, "s/reduced.rows", list...)
	return shorten.In{
		Spec: core.Spec{Index: "i", Shortening: core.Shortening{Threshold: threshold, Sample: 256}}, Artifacts: b.art,
		Scratch: "s", Source: "s/reduced.rows", Chat: chat, Ledger: ledger.New(b.art.Store, b.claims),
	}
}

// short runs a partition and gives its texts by class name.
func (b bench) short(in shorten.In, names ...string) (shorten.Result, map[string]rows.Short) {
	res := stagetest.Must(shorten.Run(b.Context(), in))
	out := map[string]rows.Short{}
	for _, row := range stagetest.Read(b, b.art, shorten.Key("s", 0)) {
		for _, name := range names {
			if id := core.ClassID(name); row.Key == string(id[:]) {
				out[name] = stagetest.Must(rows.DecodeShort([]byte(row.Value)))
			}
		}
	}
	assert.True(b, len(out) == int(res.Classes), "%d classes reported, %d of %v found", res.Classes, len(out), names)
	return res, out
}

// brief answers with the text's length.
func brief(call model.Call) (model.Reply, error) {
	return model.Reply{Text: fmt.Sprintf(`{"description":"brief of %d"}`, len(call.Input))}, nil
}

func TestUnderParityAWholeTextIsShortenedByOneMessageAndTakenAsItIs(t *testing.T) {
	b := newBench(t)
	for says, c := range map[string]struct {
		answer model.Reply
		want   func(whole string) string
	}{
		"a description": {
			model.Reply{Text: fmt.Sprintf(`{"description":%q}`, strings.Repeat("long ", 300))},
			func(string) string { return strings.TrimSpace(strings.Repeat("long ", 300)) },
		},
		"nothing of use": {model.Reply{Text: "no"}, func(whole string) string { return whole[:threshold] }},
	} {
		chat := &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) { return c.answer, nil }}
		class := class("Parity "+says, 600)
		in := b.in(chat, class)
		in.Spec.Parity = true
		_, short := b.short(in, class.Name)
		calls := chat.Calls()
		whole := strings.Join(class.Descriptions, " ")
		assert.True(t, calls[0].System == "" && strings.HasSuffix(calls[0].User, whole) && len(whole) > 24_000,
			"%s: %.300s", says, calls[0].User)
		assert.Equal(t, c.want(whole), short[class.Name].Text, says)
	}
}

func TestOnlyLongTextsAreShortenedAndOnlyOnce(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: brief}
	all := []rows.Reduced{class("Alpha", 3), class("Beta", 40), class("Gamma", 60), class("Delta", 1)}
	var reported core.Progress
	for run, hits := range []int64{0, 2} {
		in := b.in(chat, all...)
		in.OnProgress = func(p core.Progress) { reported = p }
		res, got := b.short(in, "Beta", "Gamma")
		want := core.Progress{Stage: "shorten", Done: 2, Hits: core.Calls{Shorten: hits}}
		assert.True(t, res.Progress == want && reported == want && len(chat.Calls()) == 2,
			"run %d: %+v, reported %+v, %d calls", run, res.Progress, reported, len(chat.Calls()))
		for name, short := range got {
			assert.True(t, strings.HasPrefix(short.Text, "brief of ") && len(short.Keys) == 1, "%s: %+v", name, short)
		}
	}
	t.Run("under any other name it is another text", func(t *testing.T) {
		other := class("Beta", 40)
		other.Name = "Beth"
		b.short(b.in(chat, other), "Beth")
		assert.Len(t, chat.Calls(), 3)
	})
	t.Run("the call holds name, text and limit", func(t *testing.T) {
		call := chat.Calls()[2]
		assert.True(t, call.Name == "Beth" && call.Limit == threshold &&
			strings.HasPrefix(call.User, "Name: Beth\n\nDescriptions:\nBeta does") && call.Task == model.Shorten, "%+v", call)
	})
}

func TestHitsAreCountedOnlyWhenTheLedgerAnswered(t *testing.T) {
	b := newBench(t)
	chat := &stagetest.Chat{Answer: brief}
	b.short(b.in(chat, class("Beta", 40)), "Beta")
	chat.Answer = stagetest.Fails(fault.ModelAuth.At("call", "m"))
	var classes []rows.Reduced
	for i := range 30 {
		classes = append(classes, class(fmt.Sprint("Class ", i), 40))
	}
	res, err := shorten.Run(t.Context(), b.in(chat, append(slices.Clone(classes), class("Beta", 40))...))
	assert.True(t, fault.Is(err, fault.ModelAuth) && res.Progress.Hits.Shorten <= 1, "%v: %+v", err, res.Progress)
	res, err = shorten.Run(t.Context(), b.in(chat, classes...))
	assert.True(t, err != nil && res.Progress == (core.Progress{Stage: "shorten"}),
		"%v: a server that refuses gives %+v", err, res.Progress)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err = shorten.Run(ctx, b.in(chat, class("Unseen", 40)))
	assert.True(t, err != nil && res.Progress.Hits.Shorten == 0, "%v: a cancelled run gives %+v", err, res.Progress)
}

func TestAVeryLongTextIsShortenedInBlocksThenAsAWhole(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("x", 400)
	chat := &stagetest.Chat{Answer: stagetest.Says(`{"description":"` + long + `"}`)}
	one := class("Hot", 1000)
	blocks := len(shorten.Blocks(one.Descriptions))
	require.True(t, blocks >= 3, "only %d blocks", blocks)
	_, got := b.short(b.in(chat, one), "Hot")
	if n := len(chat.Calls()); n != blocks+1 || len(got["Hot"].Keys) != n {
		t.Errorf("%d calls and %d keys for %d blocks", n, len(got["Hot"].Keys), blocks)
	}
	if last := chat.Calls()[blocks]; last.Input != strings.TrimSuffix(strings.Repeat(long+" ", blocks), " ") {
		t.Errorf("the whole is made of %.80q", last.Input)
	}
	t.Run("a mention more pays for its block and the whole", func(t *testing.T) {
		before := len(chat.Calls())
		more := class("Hot", 1000)
		more.Descriptions = slices.Insert(more.Descriptions, 500, "A new thing about Hot.")
		res, _ := b.short(b.in(chat, more), "Hot")
		if paid := len(chat.Calls()) - before; paid < 1 || paid > 3 || res.Progress.Hits.Shorten < int64(blocks-2) {
			t.Errorf("%d calls, %d hits of %d blocks", paid, res.Progress.Hits.Shorten, blocks)
		}
	})
	t.Run("blocks that come out short enough are not shortened again", func(t *testing.T) {
		b := newBench(t)
		chat := &stagetest.Chat{Answer: stagetest.Says(`{"description":"short"}`)}
		_, got := b.short(b.in(chat, one), "Hot")
		want := strings.TrimSuffix(strings.Repeat("short ", blocks), " ")
		assert.True(t, len(chat.Calls()) == blocks && got["Hot"].Text == want, "%d calls, %q", len(chat.Calls()),
			got["Hot"].Text)
	})
}

// together answers once want calls are there at the same time.
func together(t *testing.T, want int) *stagetest.Chat {
	arrived := make(chan struct{}, want)
	all := make(chan struct{})
	go func() {
		for range want {
			<-arrived
		}
		close(all)
	}()
	return &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
		arrived <- struct{}{}
		select {
		case <-all:
		case <-time.After(time.Minute):
			t.Errorf("fewer than %d calls at once", want)
		}
		return model.Reply{Text: `{"description":"short"}`}, nil
	}}
}

func TestAPartitionAsksAsMuchAtOnceAsTheLimitAllows(t *testing.T) {
	for limit, want := range map[int]int{100: 100, 4: 16, 5000: 512, 0: 64} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			b := newBench(t)
			var classes []rows.Reduced
			for i := range want {
				classes = append(classes, class(fmt.Sprintf("Name %d", i), 40))
			}
			in := b.in(together(t, want), classes...)
			in.Spec.Limits.Concurrency = limit
			res, err := shorten.Run(t.Context(), in)
			assert.True(t, err == nil && res.Classes == int64(want), "%+v, %v", res, err)
		})
	}
}

func TestTheBlocksOfATextAreAskedForAtOnce(t *testing.T) {
	b := newBench(t)
	one := class("Hot", 1000)
	blocks := len(shorten.Blocks(one.Descriptions))
	_, got := b.short(b.in(together(t, blocks), one), "Hot")
	assert.Len(t, got["Hot"].Keys, blocks)
}

func TestATextThatTheModelGivesNothingForFallsBackToItsStart(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(model.Call) (model.Reply, error)
		calls  int
	}{
		"no JSON":               {stagetest.Says("I cannot."), 2},
		"an empty description":  {stagetest.Says(`{"description":""}`), 2},
		"a list of nothing":     {stagetest.Says(`[]`), 2},
		"a refusal of the text": {stagetest.Fails(fault.ModelRejected.At("call", "m")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			chat := &stagetest.Chat{Answer: c.answer}
			for run, hits := range []int64{0, 1} { // it is remembered
				res, got := b.short(b.in(chat, class("Beta", 40)), "Beta")
				text := got["Beta"].Text
				assert.True(t, strings.HasPrefix(text, "Beta does thing 0") && strings.HasSuffix(text, "say so.") &&
					utf8.RuneCountInString(text) <= threshold, "%q", text)
				assert.True(t, len(chat.Calls()) == c.calls && res.Progress.Hits.Shorten == hits,
					"run %d: %d calls, %+v", run, len(chat.Calls()), res.Progress)
			}
		})
	}
}

func TestAnswersAreReadInSeveralForms(t *testing.T) {
	for answer, want := range map[string]string{
		`{"description":" Good. "}`: "Good.", `["Good."]`: "Good.", "Here it is: {\"description\":\"Good.\"} I hope": "Good.",
		"```json\n{\"description\":\"Good.\"}\n```":           "Good.",
		`{"description":"` + strings.Repeat("y", 3000) + `"}`: strings.Repeat("y", threshold),
	} {
		b := newBench(t)
		_, got := b.short(b.in(&stagetest.Chat{Answer: stagetest.Says(answer)}, class("Beta", 40)), "Beta")
		assert.Equal(t, want, got["Beta"].Text, "%.40q is read as", answer)
	}
}

func TestBuiltInShorteningNeedsNoLedger(t *testing.T) {
	b := newBench(t)
	res, got := b.short(b.in(builtin.Chat{}, class("Beta", 40)), "Beta")
	n := utf8.RuneCountInString(got["Beta"].Text)
	assert.True(t, n != 0 && n <= threshold && len(got["Beta"].Keys) == 0, "%d runes, %d keys", n, len(got["Beta"].Keys))
	assert.Zero(t, res.Progress.Hits.Shorten, "%+v", res.Progress)
	for info := range b.art.Store.List(t.Context(), "ledger/", "") {
		t.Errorf("wrote %s", info.Key)
	}
}

func TestBlocksAreCutByContent(t *testing.T) {
	descriptions := class("Hot", 2000).Descriptions
	blocks := func(descriptions []string) map[string]bool {
		out := map[string]bool{}
		for _, block := range shorten.Blocks(descriptions) {
			text := strings.Join(block, "")
			n := utf8.RuneCountInString(text)
			assert.True(t, n <= 24_000, "a block of %d runes", n)
			out[text] = true
		}
		return out
	}
	all := blocks(descriptions)
	var joined strings.Builder
	for _, block := range shorten.Blocks(descriptions) {
		joined.WriteString(strings.Join(block, ""))
	}
	assert.Equal(t, strings.Join(descriptions, ""), joined.String(), "blocks lose or move descriptions")
	changed := 0
	for block := range blocks(slices.Delete(slices.Clone(descriptions), 900, 901)) {
		if !all[block] {
			changed++
		}
	}
	assert.True(t, changed != 0 && changed <= 3, "%d of %d blocks change when one mention goes", changed, len(all))
	assert.Len(t, shorten.Blocks([]string{strings.Repeat("a", 50_000), "b"}), 2, "blocks of a huge mention")
	assert.Nil(t, shorten.Blocks(nil), "no mention")
}

func TestTruncateEndsWithASentenceOrAWord(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short enough":                {"One. Two.", 9, "One. Two."},
		"a sentence ends in time":     {"One is here. Two is there. Three is gone.", 30, "One is here. Two is there."},
		"no sentence in second half":  {"One. Two goes on and on and on", 20, "One. Two goes on"},
		"a single word":               {"Incomprehensibilities", 5, "Incom"},
		"characters of several bytes": {"éééé éééé éééé", 6, "éééé"},
	} {
		assert.Equal(t, c.want, shorten.Truncate(c.text, c.limit), "%s", name)
	}
}
