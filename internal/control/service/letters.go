package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/workflows"
)

// readPublished returns the manifest of the generation that is served.
func (s *Service) readPublished(ctx context.Context, index, what string) (*core.Manifest, error) {
	current, _, err := s.indexOf(index).ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	if current.Manifest == "" {
		return nil, fault.UnknownIndex.At(what+" of", index).
			Because("the index has no published generation").
			Advise("to build it: unweaver index CORPUS --index " + index)
	}
	return s.indexOf(index).ManifestOf(ctx, current)
}

// DeadLetters implements Control.
func (s *Service) DeadLetters(ctx context.Context, index string) ([]core.Letter, error) {
	manifest, err := s.readPublished(ctx, index, "list dead letters")
	if err != nil {
		return nil, err
	}
	return run.ReadLetters(ctx, s.indexOf(index), manifest.Generation)
}

// DeadLetter implements Control.
func (s *Service) DeadLetter(ctx context.Context, index, chunk string) (core.Letter, error) {
	manifest, err := s.readPublished(ctx, index, "show dead letter")
	if err != nil {
		return core.Letter{}, err
	}
	return run.FindLetter(ctx, s.indexOf(index), manifest, chunk)
}

// DiscardLetters implements Control.
func (s *Service) DiscardLetters(ctx context.Context, request control.LettersRequest) error {
	manifest, err := s.readPublished(ctx, request.Name, "discard dead letters")
	if err != nil {
		return err
	}
	op := core.Operation{
		Action: core.ActionDiscardLetters, To: manifest.Generation, Name: lettersNamed(request.Chunks),
		Operator: core.Operator{Reason: request.Why},
	}
	return s.recordOperation(ctx, op, request.Name, func(string) error {
		return run.DiscardLetters(ctx, s.indexOf(request.Name), manifest.Generation, request.Chunks, request.Why)
	})
}

// mostLettersNamed is how many letters a record of the audit trail names.
const mostLettersNamed = 16

// lettersNamed names chunks in the audit trail, as far as there is room, and nothing that is no chunk.
func lettersNamed(chunks []string) string {
	var out []string
	for _, chunk := range chunks {
		if _, err := core.ParseID(chunk); err != nil {
			continue
		}
		if len(out) == mostLettersNamed {
			return strings.Join(out, " ") + fmt.Sprintf(" and others: %d in all", len(chunks))
		}
		out = append(out, chunk)
	}
	return strings.Join(out, " ")
}

// RetryFailed implements Control. The round is later than every one that failed, so that no failure that is remembered
// answers for the model.
func (s *Service) RetryFailed(ctx context.Context, request control.LettersRequest) (control.Run, error) {
	index, generation, err := parseRun(request.Name)
	if err != nil {
		return control.Run{}, err
	}
	manifest, err := s.readPublished(ctx, index, "ask again for what failed")
	if err != nil {
		return control.Run{}, err
	}
	if generation != "" && generation != manifest.Generation {
		return control.Run{}, fault.Usage.At("ask again for what failed in", index+"/"+generation).
			Because("generation " + manifest.Generation + " is the published generation, and has the failed passages").
			Advise("name that generation, or the index: unweaver retry-failed " + index)
	}
	if open, err := s.openRound(ctx, index, request.Chunks); err != nil || open.Run != "" {
		return open, err
	}
	chunks, round, err := s.chooseLetters(ctx, index, manifest, request.Chunks)
	if err != nil || round == 0 {
		return control.Run{}, err
	}
	spec, err := s.indexOf(index).Spec(ctx, manifest.Spec)
	if err != nil {
		return control.Run{}, err
	}
	if err := cmp.Or(run.RefuseImageSpec(spec), s.Models.Check(spec)); err != nil {
		return control.Run{}, err
	}
	name, err := s.nameGeneration(ctx, index)
	if err != nil {
		return control.Run{}, err
	}
	name = workflows.RetryGeneration + name
	if err := run.ChooseLetters(ctx, s.indexOf(index), name, chunks); err != nil {
		return control.Run{}, err
	}
	op := core.Operation{Action: core.ActionRetry, Run: index + "/" + name, Name: lettersNamed(chunks)}
	var work control.Run
	err = s.recordOperation(ctx, op, index, func(string) (err error) {
		build := s.newBuild(index, name, manifest.Spec)
		build.Attempt = round
		work, err = s.startBuild(ctx, control.Priority{}, build)
		return err
	})
	return work, err
}

// openRound names the round of retry-failed that goes on for the same chunks, none where nothing builds the index. A
// round goes on after its process was killed: it is joined, as nothing else may build the index until it has ended.
func (s *Service) openRound(ctx context.Context, index string, chunks []string) (control.Run, error) {
	open, err := s.goingBuilds(ctx, index)
	if err != nil || len(open) == 0 {
		return control.Run{}, err
	}
	work := open[len(open)-1]
	why := "run " + work + " is building it"
	if workflows.ForRetry(work) {
		_, generation, _ := strings.Cut(work, "/")
		chosen, err := run.ReadChoice(ctx, s.indexOf(index), generation)
		if err != nil {
			return control.Run{}, err
		}
		if slices.Equal(slices.Sorted(slices.Values(chosen)), slices.Sorted(slices.Values(chunks))) {
			return s.attachRun(ctx, work)
		}
		why = "run " + work + " is retrying others"
	}
	return control.Run{}, fault.LeaseHeld.At("ask again for what failed in", index).
		Because(why).
		Advise("add --wait to start the round after that run ends; to end it now: unweaver cancel " + work)
}

// chooseLetters looks up what is asked for, and the number of the next round; 0: nothing failed.
func (s *Service) chooseLetters(
	ctx context.Context, index string, manifest *core.Manifest, chunks []string,
) (chosen []string, round int, err error) {
	letters, err := run.ReadLetters(ctx, s.indexOf(index), manifest.Generation)
	if err != nil {
		return nil, 0, err
	}
	for _, chunk := range chunks {
		if !slices.ContainsFunc(letters, func(letter core.Letter) bool { return letter.Chunk == chunk }) {
			return nil, 0, fault.NotFound.At("replay dead letter", fault.QuoteName(chunk)).
				Because(fmt.Sprintf("generation %s of %s has no such dead letter, and %d others", manifest.Generation, index,
					len(letters))).
				Advise("to list them: unweaver dead-letters list " + index)
		}
	}
	for _, letter := range letters {
		if len(chunks) > 0 || letter.Discarded == nil {
			round = max(round, letter.Attempts)
		}
	}
	if len(chunks) == 0 && manifest.Counts.Untranscribed > 0 { // a failure of theirs has no letter
		round = max(round, manifest.Round+1)
	}
	return chunks, round, nil
}
