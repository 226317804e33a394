package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Search attributes of builds and restores. They hold names and statuses only.
var (
	IndexAttribute      = temporal.NewSearchAttributeKeyKeyword("UnweaverIndex")
	GenerationAttribute = temporal.NewSearchAttributeKeyKeyword("UnweaverGeneration")
	StageAttribute      = temporal.NewSearchAttributeKeyKeyword("UnweaverStage")
	StatusAttribute     = temporal.NewSearchAttributeKeyKeyword("UnweaverStatus")
)

// SearchAttributes lists them, for registration at a server.
func SearchAttributes() []temporal.SearchAttributeKeyKeyword {
	return []temporal.SearchAttributeKeyKeyword{IndexAttribute, GenerationAttribute, StageAttribute, StatusAttribute}
}

// upsertAttributes makes a run findable by its stage and status, where its starter knew that the server has the
// attributes.
func (r *run) upsertAttributes(ctx workflow.Context, status string) error {
	if !r.SearchAttributes {
		return nil
	}
	return workflow.UpsertTypedSearchAttributes(
		ctx,
		IndexAttribute.ValueSet(r.Index),
		GenerationAttribute.ValueSet(r.Generation),
		StageAttribute.ValueSet(r.now.stage),
		StatusAttribute.ValueSet(status),
	)
}
