package config

import (
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// resolveExtraction returns what a specification says of extraction; nil: the usual. The file of examples is read here,
// so that its content, and not its path, is what later runs compare.
func (i *Index) resolveExtraction(index string) (*core.Extraction, error) {
	out := i.Extraction
	out.Types = core.SortTypes(out.Types)
	out.Guidance = strings.TrimSpace(strings.ReplaceAll(out.Guidance, "\r\n", "\n"))
	if out.Examples != "" {
		examples, err := readExamples(out.Examples, out.Types)
		if err != nil {
			return nil, fault.BadConfig.At("read examples", out.Examples).Because(err).
				Advise("fix the file (indexes." + index + ".extraction.examples); docs/guides/own-types.md shows one")
		}
		out.Examples = core.WriteExamples(examples)
	}
	if out.Share >= 1 && out.Language == "" && out.Apply == "" && out.Request().IsEmpty() {
		return nil, nil
	}
	return &out, nil
}

func readExamples(path string, types []string) ([]core.Example, error) {
	raw, err := readRegular(path)
	if err != nil {
		return nil, err
	}
	return core.ReadExamples(raw, types)
}

// checkExamples refuses examples that are no answers to the prompt of the index.
func (l *loader) checkExamples(path string, of core.Extraction) {
	if of.Examples == "" || allowEmpty(existingFile()).mistake(of.Examples) != "" {
		return // the rule of the key says it
	}
	_, err := readExamples(of.Examples, of.Types)
	l.checkKey(err == nil, path+".examples", "%s: %v", of.Examples, err)
}

// requireEntityTypes returns the rule of the types of entities.
func requireEntityTypes() rule {
	return rule{"at most 64 names of at most 80 characters", func(value any) string {
		return core.CheckTypes(value.([]string)) //nolint:forcetypeassert // the key's field is one
	}}
}
