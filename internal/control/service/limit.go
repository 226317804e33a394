package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/workflows"
)

// LimitRun implements Control. What is given is sent as one update each, and each is obeyed or refused by itself: the
// error says which was refused, and what took effect before it.
func (s *Service) LimitRun(ctx context.Context, r control.LimitRequest) error {
	run, _, err := s.resolveRun(ctx, r.Run)
	if err != nil {
		return err
	}
	commands, change, err := limitCommands(r)
	if r.Budget != nil && err == nil {
		if state, unread := s.runLog().ReadState(ctx, run); unread == nil {
			if why := describeExhausted(state.Report, *r.Budget); why != "" {
				err = errors.New(why)
			}
		}
	}
	if err != nil {
		return fault.Usage.At("limit run", run).
			Because(err).
			Advise("for help: unweaver limit --help")
	}
	return s.recordedChange(ctx, core.ActionLimit, run, change, func() error {
		var done []string
		for _, one := range commands {
			err := s.sendCommand(ctx, run, one.update, nil, one.input)
			if err != nil && len(done) > 0 {
				return fault.CodeOf(err).At("limit run", run).
					Because(fmt.Errorf("%s took effect; %w", strings.Join(done, ", "), err))
			}
			if err != nil {
				return err
			}
			done = append(done, one.update)
		}
		return nil
	})
}

// limitation is an update with its input.
type limitation struct {
	update string
	input  any
}

// limitCommands gives the updates that a request stands for, the budget first, and the words of the audit trail for it.
func limitCommands(r control.LimitRequest) (commands []limitation, change string, err error) {
	var words []string
	if b := r.Budget; b != nil {
		switch {
		case *b == core.Budget{}:
			return nil, "", errors.New("the budget is empty: give calls, tokens or money above zero")
		case b.Calls < 0 || b.Tokens < 0 || !(b.Money >= 0): // not a number too
			return nil, "", errors.New("a budget cannot be negative")
		}
		commands = append(commands, limitation{workflows.UpdateBudget, workflows.Budget(*b)})
		words = append(words, fmt.Sprintf("budget: calls %d, tokens %d, money %g", b.Calls, b.Tokens, b.Money))
	}
	if l := r.Limits; l != nil {
		if err := l.Check(); err != nil {
			return nil, "", err
		}
		if l.Concurrency != nil {
			input := workflows.Limits{Concurrency: l.Concurrency}
			commands = append(commands, limitation{workflows.UpdateConcurrency, input})
		}
		if l.RequestsPerMinute != nil || l.TokensPerMinute != nil {
			input := workflows.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute}
			commands = append(commands, limitation{workflows.UpdateRates, input})
		}
		words = append(words, l.String())
	}
	if len(commands) == 0 {
		return nil, "", errors.New("neither a limit nor a budget is given")
	}
	return commands, strings.Join(words, ", "), nil
}
