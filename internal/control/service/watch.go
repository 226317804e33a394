package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// WatchQuestions implements Control.
func (s *Service) WatchQuestions(ctx context.Context, r control.WatchRequest) ([]core.Question, error) {
	if len(r.Add) > 0 && r.Remove != "" {
		return nil, fault.InvalidParam.At("change standing questions of", r.Index).
			Because("a request either adds questions or removes one").Advise("send one request for each")
	}
	if err := s.checkKnown(ctx, r.Index, "ask for standing questions"); err != nil {
		return nil, err
	}
	index := s.indexOf(r.Index)
	if len(r.Add) > 0 {
		return addQuestions(ctx, index, r)
	}
	all, err := index.ListQuestions(ctx)
	if r.Remove == control.AllWatched && r.Readers.All { // also what cannot be read
		return all, index.DeleteQuestions(ctx)
	}
	isMeant := func(one core.Question) bool {
		return r.Readers.HoldAll(one.Labels) && (one.ID == r.Remove || r.Remove == "" || r.Remove == control.AllWatched)
	}
	meant := slices.DeleteFunc(all, func(one core.Question) bool { return !isMeant(one) })
	switch {
	case err != nil || r.Remove == "":
		return meant, err
	case len(meant) == 0 && r.Remove != control.AllWatched:
		return nil, fault.NotFound.At("remove standing question", fault.QuoteName(r.Remove)).
			Because("the index " + r.Index + " has no standing question of this id").
			Advise("to list them: unweaver watch list --index " + r.Index)
	}
	return meant, index.ChangeQuestions(ctx, func(list []core.Question) ([]core.Question, error) {
		return slices.DeleteFunc(list, isMeant), nil
	})
}

// addQuestions adds standing questions, all or none, and returns them as they are kept.
func addQuestions(ctx context.Context, index artifact.Index, r control.WatchRequest) ([]core.Question, error) {
	var added []core.Question
	for i, question := range r.Add {
		kept, err := question.Normalize()
		if err != nil {
			return nil, fault.InvalidParam.At("add standing question", fmt.Sprintf("%d of %d", i+1, len(r.Add))).Because(err).
				Advise("nothing was added: correct it and send all of them again")
		}
		if !r.Readers.HoldAll(kept.Labels) { // reports quote what readers with its labels may read
			return nil, fault.Forbidden.At("add standing question", fmt.Sprintf("%d of %d", i+1, len(r.Add))).
				Because(fmt.Sprintf("it has labels (%.100s) that the API key or the person does not have",
					strings.Join(kept.Labels, ", "))).
				Advise("leave them out, or use a key with them: unweaver keys create --labels LABEL,LABEL")
		}
		added = append(added, kept)
	}
	return added, index.ChangeQuestions(ctx, func(list []core.Question) ([]core.Question, error) {
		known := map[string]int{}
		for i, one := range list {
			known[one.ID] = i
		}
		for _, question := range added {
			if at, again := known[question.ID]; again {
				list[at] = question
				continue
			}
			known[question.ID] = len(list)
			list = append(list, question)
		}
		if len(list) > core.MaxWatched {
			return nil, fault.InvalidParam.At("add standing questions to", r.Index).
				Because(fmt.Sprintf("it would have %d, the limit is %d", len(list), core.MaxWatched)).
				Advise("remove some: unweaver watch list --index " + r.Index)
		}
		return list, nil
	})
}
