package core

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Labels says how documents get labels, which decide who may read them. The zero value gives none: everybody who may
// read the index reads all of it (docs/guides/labels.md).
type Labels struct {
	Field string   `json:"field,omitempty"` // of metadata, whose elements are labels; empty: none is looked at
	Rules []string `json:"rules,omitempty"` // PATTERN=LABELS where the field is missing; the first that matches counts
}

// IsOn reports whether documents get labels.
func (l Labels) IsOn() bool { return l.Field != "" || len(l.Rules) > 0 }

// LabelSet is the labels of a document in their canonical form: sorted, each once, with a comma between them. A reader
// who holds one of them may read the document.
type LabelSet string

// Sets that are no lists of labels.
const (
	Everybody LabelSet = ""  // also of every document of an index without labels
	Nobody    LabelSet = "," // its labels are not known
)

// PublicLabel is the label that every reader holds.
const PublicLabel = "public"

// AnyLabel in place of the labels of a reader lets it read every document.
const AnyLabel = "*"

// Bounds of labels.
const (
	MaxLabelRunes = 100       // of one label
	MaxLabels     = 64        // of one document
	MaxLabelSets  = 1_000     // different ones of one generation
	MaxLabelBytes = 256 << 10 // of these together: each split lists those of its documents
)

// Visible returns a text without the characters that nobody sees, such as soft hyphens, control characters and blanks
// of no width; ends of lines and tabs stay.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		hidden := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
		if hidden && !unicode.IsSpace(r) || r == '\u2800' { // an empty pattern of Braille
			return -1
		}
		return r
	}, text)
}

// dropBreaks takes out of a name what it has of ends of lines and tabs.
var dropBreaks = strings.NewReplacer("\n", "", "\r", "", "\t", "", "\v", "", "\f", "", "\u0085", "")

// IsNamed reports whether a name of metadata looks like that of a field: in whatever case, with blanks around it, or
// with characters that nobody sees.
func IsNamed(name, field string) bool {
	return strings.EqualFold(strings.TrimSpace(dropBreaks.Replace(Visible(name))), Visible(field))
}

// CheckLabel returns why a text is no label; nil: it is one.
func CheckLabel(label string) error {
	switch {
	case label == "":
		return fmt.Errorf("a label is empty")
	case !utf8.ValidString(label) || utf8.RuneCountInString(label) > MaxLabelRunes:
		return fmt.Errorf("label %.40q… is not UTF-8, or longer than %d characters", label, MaxLabelRunes)
	case strings.ContainsFunc(label, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }):
		return fmt.Errorf("label %.110q contains a comma or a character that is not printable", label)
	case label != strings.TrimSpace(label):
		return fmt.Errorf("label %.110q begins or ends with a blank", label)
	case label == AnyLabel:
		return fmt.Errorf("%s is no label of a document", AnyLabel)
	}
	return nil
}

// ParseLabels reads a list of labels with commas between them. One that cannot be used is an error, and the set is
// Nobody then: who may read the document is not known. A list without labels is Nobody too.
func ParseLabels(list string) (LabelSet, error) {
	var labels []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one != "" {
			labels = append(labels, one)
		}
	}
	return NewLabelSet(labels)
}

// NewLabelSet returns the set of labels. Errors are those of ParseLabels.
func NewLabelSet(labels []string) (LabelSet, error) {
	labels = slices.Compact(slices.Sorted(slices.Values(labels)))
	for _, label := range labels {
		if err := CheckLabel(label); err != nil {
			return Nobody, err
		}
	}
	switch {
	case len(labels) > MaxLabels:
		return Nobody, fmt.Errorf("there are %d labels, the limit is %d", len(labels), MaxLabels)
	case len(labels) == 0:
		return Nobody, nil
	case slices.Contains(labels, PublicLabel):
		return Everybody, nil
	}
	return LabelSet(strings.Join(labels, ",")), nil
}

// IsCanonical reports whether a set is as NewLabelSet makes it.
func (s LabelSet) IsCanonical() bool {
	if s == Everybody || s == Nobody {
		return true
	}
	set, err := NewLabelSet(strings.Split(string(s), ","))
	return err == nil && set == s
}

// CheckLabels returns why an index cannot have labels, as what it makes of its documents would join texts of different
// readers; empty: it has none, or can.
func (s Spec) CheckLabels() string {
	switch {
	case !s.ReadAs().Labels.IsOn():
		return ""
	case len(s.Enrich) > 0:
		return "enrichments (enrich) join texts of documents with different labels: remove enrich or labels"
	case s.Aliases != "":
		return "names are not joined by a file of aliases where documents have labels: remove aliases or labels"
	case s.Parity:
		return "the reference implementation (parity) has no labels: remove parity or labels"
	case s.Retrieval.Language == LanguageAuto:
		return "auto finds the language in all documents: set retrieval.language"
	}
	return ""
}

// Describe returns the set as people write it.
func (s LabelSet) Describe() string {
	switch s {
	case Everybody:
		return PublicLabel
	case Nobody:
		return "(nobody)"
	}
	return strings.ReplaceAll(string(s), ",", ", ")
}

// Readers is what somebody holds who reads: labels, or all documents. The zero value reads what is public.
type Readers struct {
	All    bool
	Labels []string
}

// ReadersOf returns what a list of labels lets one read; AnyLabel among them is every document.
func ReadersOf(labels []string) Readers {
	return Readers{All: slices.Contains(labels, AnyLabel), Labels: labels}
}

// labelsNamed are named where labels are shown.
const labelsNamed = 5

// Describe returns the labels with commas between them, of many the first and how many more there are.
func (r Readers) Describe() string {
	named := strings.Join(r.Labels[:min(len(r.Labels), labelsNamed)], ",")
	if more := len(r.Labels) - labelsNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", named, more)
	}
	return named
}

// HoldAll reports whether readers hold each of some labels. The label of every document is held by who reads all.
func (r Readers) HoldAll(labels []string) bool {
	return r.All || !slices.ContainsFunc(labels, func(label string) bool {
		return label == AnyLabel || label != PublicLabel && !slices.Contains(r.Labels, label)
	})
}

// Filter returns what reports whether a document with a set of labels may be read.
func (r Readers) Filter() func(LabelSet) bool {
	held := make(map[string]bool, len(r.Labels))
	for _, label := range r.Labels {
		held[label] = true
	}
	return func(set LabelSet) bool {
		if r.All || set == Everybody || set == Nobody {
			return r.All || set == Everybody
		}
		for label := range strings.SplitSeq(string(set), ",") {
			if held[label] {
				return true
			}
		}
		return false
	}
}

// FragmentID returns the id of what the documents of one set of labels say of a name: that of the class where everybody
// may read them.
func FragmentID(key string, set LabelSet) ID {
	if set == Everybody {
		return ClassID(key)
	}
	sum := Sum("fragment", key, string(set))
	return ID(sum[:16])
}
