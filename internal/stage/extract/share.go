package extract

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/sampling"
)

// RungRule is the rung of a chunk that was not sent to the model since it is not among the share that it gets.
const RungRule = "rule"

// sendsChunk reports whether the model extracts from a chunk.
func sendsChunk(spec core.Spec, info model.Info, text string) bool {
	return info.Provider == "builtin" || sampling.ShouldSend(text, spec.ExtractionShare())
}

// byRule extracts as the built-in model does.
func byRule(ctx context.Context, language, text string) (value, error) {
	reply, err := builtin.Chat{Language: language}.Complete(ctx, model.Call{Task: model.Extract, Input: text})
	if err != nil {
		return value{}, err
	}
	entities, _, ok := Parse(reply.Text)
	if !ok {
		return value{}, fault.Internal.At("extract by rule", "a chunk").Because("its answer cannot be read")
	}
	v := value{Rung: RungRule, Entities: make([]entity, len(entities))}
	for i, one := range entities {
		v.Entities[i] = entity{Name: one.Name, Description: one.Description}
	}
	return v, nil
}
