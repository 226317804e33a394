package upkeep

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// choices choose requests for chunks: as the plan fixed it, and as each choice of passages would.
type choices struct {
	planned *extract.Chooser
	others  []*extract.Chooser // none: a choice makes no difference to this build
}

// openChoices opens them. The choices differ where all passages are made again and other ones were asked for. Release
// them.
func (e *estimating) openChoices(ctx context.Context) (out choices, release func(), err error) {
	before, now := unit.AskedOf(e.parent), e.fixed.Extraction
	differ := e.parent != nil && !e.fixed.Part &&
		(len(before.Earlier) > 0 || before.Request.Digest() != now.Request.Digest())
	if !differ && len(now.Earlier) == 0 {
		return out, func() {}, nil
	}
	former, release, err := e.OpenFormer(ctx, e.fixed.Parent)
	if err != nil {
		return out, release, err
	}
	out.planned = extract.NewChooser(now, former)
	for _, apply := range []string{core.ApplyAll, core.ApplyNew, core.ApplyMentions} {
		if differ {
			out.others = append(out.others, extract.NewChooser(core.AskOver(before, now.Request, apply), former))
		}
	}
	return out, release, nil
}

// report enters the calls of each choice.
func (c choices) report(into *core.Estimate, counted extract.Estimate) {
	if len(c.others) > 0 {
		into.ApplyTo = &core.ApplyCalls{All: counted.Others[0], New: counted.Others[1], Mentions: counted.Others[2]}
	}
}
