package stage

import (
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// LabelsOf returns the labels of a document, which follow from its key and its metadata: those of the field of metadata
// that the index names, else those of the first rule that matches the object, else Nobody. An error says which label
// cannot be used; the set is Nobody then.
func LabelsOf(spec core.Spec, key string, meta map[string]string) (core.LabelSet, error) {
	labels := spec.ReadAs().Labels
	if !labels.IsOn() {
		return core.Everybody, nil
	}
	if labels.Field != "" {
		if list, has := meta[labels.Field]; has {
			return checkLabels(core.ParseLabels(list))
		}
	}
	object, _, _ := strings.Cut(key, "#")
	return checkLabels(core.ParseLabels(valueFor(labels.Rules, object)))
}

func checkLabels(set core.LabelSet, err error) (core.LabelSet, error) {
	if err != nil {
		err = fmt.Errorf("%w: nobody may read the document until its labels are corrected", err)
	}
	return set, err
}
