package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// ListWatched implements Control.
func (s *Service) ListWatched(ctx context.Context, index string) ([]core.Question, error) {
	if !core.ValidIndex(index) {
		return nil, newNameFault("index", index)
	}
	questions, err := s.indexOf(index).ListQuestions(ctx)
	if err == nil && len(questions) == 0 {
		err = s.checkKnown(ctx, index, "list the standing questions")
	}
	return questions, err
}

// ChangeWatched implements Control.
func (s *Service) ChangeWatched(ctx context.Context, r control.WatchRequest) (control.Watching, error) {
	out := control.Watching{Index: r.Index, Questions: []core.Question{}}
	if !core.ValidIndex(r.Index) {
		return out, newNameFault("index", r.Index)
	}
	if len(r.Add) > 0 && r.Remove != "" || len(r.Add) == 0 && r.Remove == "" {
		return out, fault.InvalidParam.At("change standing questions of", r.Index).
			Because("a request either adds questions or removes one").Advise("send one request for each")
	}
	if err := s.checkKnown(ctx, r.Index, "change the standing questions"); err != nil {
		return out, err
	}
	if r.Remove == control.AllWatched {
		return out, s.indexOf(r.Index).DeleteQuestions(ctx)
	}
	for i, question := range r.Add {
		kept, err := question.Normalize()
		if err != nil {
			return out, fault.InvalidParam.At("add standing question", fmt.Sprintf("%d of %d", i+1, len(r.Add))).Because(err).
				Advise("nothing was added: correct it and send all of them again")
		}
		out.Questions = append(out.Questions, kept)
	}
	err := s.indexOf(r.Index).ChangeQuestions(ctx, func(list []core.Question) ([]core.Question, error) {
		if r.Remove != "" {
			at := slices.IndexFunc(list, func(one core.Question) bool { return one.ID == r.Remove })
			if at < 0 {
				return nil, fault.NotFound.At("remove standing question", fault.QuoteName(r.Remove)).
					Because("the index " + r.Index + " has no standing question of this id").
					Advise("to list them: unweaver watch list --index " + r.Index)
			}
			out.Questions = []core.Question{list[at]}
			list = slices.Delete(list, at, at+1)
		}
		known := map[string]int{}
		for i, one := range list {
			known[one.ID] = i
		}
		for _, question := range out.Questions[:len(r.Add)] {
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
		out.Total = len(list)
		return list, nil
	})
	return out, err
}
