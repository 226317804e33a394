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
	everybody := core.Readers{All: true}
	add := func(questions ...core.Question) ([]core.Question, error) {
		return b.WatchQuestions(t.Context(), control.WatchRequest{Index: "docs", Readers: everybody, Add: questions})
	}
	list := func() []core.Question {
		return musttest.Get(b.WatchQuestions(t.Context(), control.WatchRequest{Index: "docs", Readers: everybody}))(t)
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
	require.Empty(t, list(), "something of a refused request was added")
	first := musttest.Get(add(question("Who  signed?"), core.Question{Question: "Who signed?", Labels: []string{"hr", "hr"}}))(t)
	again := musttest.Get(add(core.Question{Question: "Who signed?", Notify: "legal"}))(t)
	kept := list()
	assert.True(t, len(first) == 2 && again[0].ID == first[0].ID && len(kept) == 2 && kept[0].Notify == "legal" &&
		slices.Equal(kept[1].Labels, []string{"hr"}), "%+v", kept)
	many := make([]core.Question, core.MaxWatched-1)
	for i := range many {
		many[i] = question(fmt.Sprintf("Question %d?", i))
	}
	musttest.Refuse(add(many...))(t, fault.InvalidParam, "it would have 10001, the limit is 10000")
	musttest.Get(add(many[1:]...))(t)
	assert.Len(t, list(), core.MaxWatched)
	remove := control.WatchRequest{Index: "docs", Readers: everybody, Remove: kept[0].ID}
	musttest.Get(b.WatchQuestions(t.Context(), remove))(t)
	assert.Len(t, list(), core.MaxWatched-1)
	musttest.Refuse(b.WatchQuestions(t.Context(), remove))(t, fault.NotFound, "has no standing question of this id")
	both := control.WatchRequest{Index: "docs", Remove: kept[1].ID, Add: many[:1]}
	musttest.Refuse(b.WatchQuestions(t.Context(), both))(t, fault.InvalidParam, "either adds questions or removes one")
	remove.Remove = control.AllWatched
	musttest.Get(b.WatchQuestions(t.Context(), remove))(t)
	assert.Empty(t, list())
}

// Questions with labels that who asks does not hold are unknown to them, and they add none.
// Promises: 171.
func TestStandingQuestionsAreThoseOfWhoHoldsTheirLabels(t *testing.T) {
	b := newBench(t)
	b.writeReport("g1", core.StatusCompleted)
	ask := func(readers core.Readers, request control.WatchRequest) ([]core.Question, error) {
		request.Index, request.Readers = "docs", readers
		return b.WatchQuestions(t.Context(), request)
	}
	labelled := func(labels ...string) control.WatchRequest {
		return control.WatchRequest{Add: []core.Question{{Question: "Who?", Labels: labels}}}
	}
	all := core.Readers{All: true}
	both := musttest.Get(ask(all, labelled("hr", "board")))(t)[0]
	musttest.Get(ask(all, labelled(core.AnyLabel)))(t)
	for text, readers := range map[string]core.Readers{
		"none": {}, "one": {Labels: []string{"hr"}}, "a group of that name": {Labels: []string{"board", core.AnyLabel}},
	} {
		musttest.Refuse(ask(readers, labelled("hr", "board")))(t, fault.Forbidden, "does not have")
		musttest.Refuse(ask(readers, labelled(core.AnyLabel)))(t, fault.Forbidden, "does not have")
		musttest.Refuse(ask(readers, control.WatchRequest{Remove: both.ID}))(t, fault.NotFound,
			"no standing question of this id")
		musttest.Get(ask(readers, labelled(core.PublicLabel)))(t)
		assert.Len(t, musttest.Get(ask(readers, control.WatchRequest{}))(t), 1, text)
		assert.Len(t, musttest.Get(ask(readers, control.WatchRequest{Remove: control.AllWatched}))(t), 1, text)
		assert.Len(t, musttest.Get(ask(all, control.WatchRequest{}))(t), 2, text)
	}
	holds := core.Readers{Labels: []string{"hr", "board"}}
	assert.Len(t, musttest.Get(ask(holds, control.WatchRequest{}))(t), 1)
	musttest.Get(ask(holds, control.WatchRequest{Remove: both.ID}))(t)
	assert.Len(t, musttest.Get(ask(all, control.WatchRequest{}))(t), 1)
}
