package service

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/text/entitytype"
)

// checkExtraction refuses what a specification adds to the prompt of extraction and no configuration would take: every
// passage would be paid for with it.
func checkExtraction(spec core.Spec) error {
	setting, why := entitytype.FindMistake(spec.Extraction)
	if setting == "" {
		return nil
	}
	return fault.BadConfig.At("configure", "indexes."+spec.Index+".extraction."+setting).Because(why).
		Advise("change the setting; docs/guides/own-types.md says what it takes")
}
