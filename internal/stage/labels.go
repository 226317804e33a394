package stage

import (
	"fmt"

	"golang.org/x/text/unicode/norm"

	"github.com/unweaver/unweaver/internal/core"
)

// LabelsOf returns the labels of a document, which follow from its key and its metadata: those of the field of metadata
// that the index names, else those of the first rule that matches the object, else Nobody. An error says which label
// cannot be used, or that characters which nobody sees decide by which rule; the set is Nobody then.
func LabelsOf(spec core.Spec, key string, meta map[string]string) (core.LabelSet, error) {
	labels := spec.ReadAs().Labels
	if !labels.IsOn() {
		return core.Everybody, nil
	}
	if labels.Field != "" {
		for name := range meta {
			if name != labels.Field && core.IsNamed(name, labels.Field) {
				return checkLabels(core.Nobody, fmt.Errorf("field %.80q is not written as %s", name, labels.Field))
			}
		}
		if list, has := meta[labels.Field]; has {
			set, err := core.ParseLabels(list)
			if err == nil && set == core.Nobody {
				err = fmt.Errorf("labels cannot be read (%s)", labels.Field)
			}
			return checkLabels(set, err)
		}
	}
	object := core.ObjectOf(key)
	list := valueFor(labels.Rules, object)
	if seen := asSeen(object); seen != object {
		rules := make([]string, len(labels.Rules))
		for i, rule := range labels.Rules {
			rules[i] = asSeen(rule)
		}
		if valueFor(rules, seen) != asSeen(list) {
			return checkLabels(core.Nobody, fmt.Errorf("key %.200q has characters that nobody sees, or accents apart from "+
				"their letters, and gets other labels by the rules (documents.labels) as it looks", object))
		}
	}
	return checkLabels(core.ParseLabels(list))
}

// asSeen returns a text as it looks: without characters that nobody sees, and with each accent on its letter.
func asSeen(text string) string { return norm.NFC.String(core.Visible(text)) }

// AddUnlabelled adds a document to those that nobody may read as they have no label and no rule matches, where it is
// one.
func (u *Lacking) AddUnlabelled(spec core.Spec, key string, meta map[string]string) {
	if set, err := LabelsOf(spec, key, meta); set == core.Nobody && err == nil {
		u.Add(Lacking{Documents: 1, Keys: []string{key}})
	}
}

func checkLabels(set core.LabelSet, err error) (core.LabelSet, error) {
	if err != nil {
		err = fmt.Errorf("%w: nobody may read the document until its labels are corrected", err)
	}
	return set, err
}
