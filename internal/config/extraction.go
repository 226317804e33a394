package config

import (
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/text/entitytype"
)

// resolveExtraction returns what a specification says of extraction; nil: the usual. The file of examples is read here,
// so that its content, and not its path, is what later runs compare.
func (i *Index) resolveExtraction(index string) (*core.Extraction, error) {
	out := i.Extraction
	out.Types = entitytype.Sort(out.Types)
	out.Guidance = strings.TrimSpace(strings.ReplaceAll(out.Guidance, "\r\n", "\n"))
	if out.Examples != "" {
		examples, err := readExamples(out.Examples, out.Types)
		if err != nil {
			return nil, fault.BadConfig.At("read examples", out.Examples).Because(err).
				Advise("fix the file (indexes." + index + ".extraction.examples); docs/guides/own-types.md shows one")
		}
		out.Examples = entitytype.WriteExamples(examples)
	}
	if out.Share >= 1 && out.Language == "" && out.Apply == "" && out.Request().IsEmpty() {
		return nil, nil
	}
	return &out, nil
}

func readExamples(path string, types []string) ([]entitytype.Example, error) {
	raw, err := readRegular(path, entitytype.MaxExamplesBytes+1)
	if err != nil {
		return nil, err
	}
	return entitytype.ReadExamples(raw, types)
}

// requireEntityTypes returns the rule of the types of entities.
func requireEntityTypes() rule {
	return rule{values: "at most 64 names of at most 80 characters", mistake: func(value any) string {
		return entitytype.Check(value.([]string)) //nolint:forcetypeassert // the key's field is one
	}}
}
