package service

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// checkExtraction refuses what a specification adds to the prompt of extraction and no configuration would take: every
// passage would be paid for with it.
func checkExtraction(spec core.Spec) error {
	setting, why := spec.Extraction.FindMistake()
	if setting == "" {
		return nil
	}
	return fault.BadConfig.At("configure", "indexes."+spec.Index+".extraction."+setting).Because(why).
		Advise("change the setting; docs/guides/own-types.md says what it takes")
}
