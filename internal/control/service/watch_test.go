package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// Questions are added all or none; what cannot be kept is an error that says why.
// Promises: 171.
func TestStandingQuestionsAreKeptWithinTheirBounds(t *testing.T) {
	b := newBench(t)
	question := func(text string) core.Question { return core.Question{Question: text} }
	add := func(questions ...core.Question) (control.Watching, error) {
		return b.ChangeWatched(t.Context(), control.WatchRequest{Index: "docs", Add: questions})
	}
	musttest.Refuse(add(question("Who?")))(t, fault.UnknownIndex, "the store has nothing of that name")
	b.writeReport("g1", core.StatusCompleted)
	for says, one := range map[string]core.Question{
		"10000 characters, the limit is 1000": question(strings.Repeat("ö", 10_000)),
		"the question is empty":               question(" \n"),
		"a label is empty":                    {Question: "Who?", Labels: []string{""}},
		"is not the name of a webhook":        {Question: "Who?", Notify: "https://legal.example.org"},
		"add standing question 2 of 2":        question(""),
		fmt.Sprintf("the limit is %d", core.MaxLabels): {Question: "Who?", Labels: slices.Collect(func(yield func(string) bool) {
			for i := range core.MaxLabels + 1 {
				_ = yield(fmt.Sprint("l", i))
			}
		})},
	} {
		musttest.Refuse(add(question("What is kept?"), one))(t, fault.InvalidParam, says)
	}
	require.Empty(t, musttest.Get(b.ListWatched(t.Context(), "docs"))(t), "something of a refused request was added")
	first := musttest.Get(add(question("Who  signed?"), core.Question{Question: "Who signed?", Labels: []string{"hr", "hr"}}))(t)
	require.Equal(t, 2, first.Total)
	again := musttest.Get(add(core.Question{Question: "Who signed?", Notify: "legal"}))(t)
	assert.True(t, again.Total == 2 && again.Questions[0].ID == first.Questions[0].ID, "%+v", again)
	list := musttest.Get(b.ListWatched(t.Context(), "docs"))(t)
	assert.True(t, len(list) == 2 && list[0].Notify == "legal" &&
		slices.Equal(list[1].Labels, []string{"hr"}), "%+v", list)
	many := make([]core.Question, core.MaxWatched-1)
	for i := range many {
		many[i] = question(fmt.Sprintf("Question %d?", i))
	}
	musttest.Refuse(add(many...))(t, fault.InvalidParam, "it would have 10001, the limit is 10000")
	assert.Equal(t, core.MaxWatched, musttest.Get(add(many[1:]...))(t).Total)
	remove := control.WatchRequest{Index: "docs", Remove: list[0].ID}
	assert.Equal(t, core.MaxWatched-1, musttest.Get(b.ChangeWatched(t.Context(), remove))(t).Total)
	musttest.Refuse(b.ChangeWatched(t.Context(), remove))(t, fault.NotFound, "has no standing question of this id")
	both := control.WatchRequest{Index: "docs", Remove: list[1].ID, Add: many[:1]}
	musttest.Refuse(b.ChangeWatched(t.Context(), both))(t, fault.InvalidParam, "either adds questions or removes one")
	musttest.Get(b.ChangeWatched(t.Context(), control.WatchRequest{Index: "docs", Remove: control.AllWatched}))(t)
	assert.Empty(t, musttest.Get(b.ListWatched(t.Context(), "docs"))(t))
}
