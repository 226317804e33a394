package retrieve

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
)

// Condition is what the value of one field of metadata must be. Every part that is given must hold. A list is stored
// as a text with commas between its elements, and holds where one element does.
type Condition struct {
	Field  string
	Words  string // the condition as people read it
	In     *Values
	Not    *Values
	Bounds []Bound
	Exists *bool
}

// Values are texts that a field may have, or must not have.
type Values struct {
	known   map[string]bool
	lengths []int // of the texts, in bytes, each once
	digest  core.Digest
}

// NewValues returns values that are looked up at once, however many there are.
func NewValues(list []string) *Values {
	out := &Values{known: make(map[string]bool, len(list)), digest: core.Sum(list...)}
	for _, text := range list {
		out.known[text] = true
		out.lengths = append(out.lengths, len(text))
	}
	slices.Sort(out.lengths)
	out.lengths = slices.Compact(out.lengths)
	return out
}

const listComma = ", "

// matchText reports whether a text, or elements of it that follow each other, is one of the values.
func (v *Values) matchText(text string) bool {
	for more := true; more; _, text, more = strings.Cut(text, listComma) {
		for _, length := range v.lengths {
			if length > len(text) {
				break
			}
			if (length == len(text) || strings.HasPrefix(text[length:], listComma)) && v.known[text[:length]] {
				return true
			}
		}
	}
	return false
}

// Scalar is a number or a time.
type Scalar struct {
	number float64
	moment time.Time
	isTime bool
	isDay  bool // the time is the beginning of a day, which was given without an hour
}

// ParseScalar reads a number, or a time or day of RFC 3339.
func ParseScalar(text string) (out Scalar, ok bool) {
	if out.number, ok = core.ParseNumber(text); ok {
		return out, true
	}
	out.moment, out.isDay, ok = core.ParseMoment(text)
	out.isTime = ok
	return out, ok
}

// compare orders two numbers or two times.
func (s Scalar) compare(other Scalar) int {
	if s.isTime {
		return s.moment.Compare(other.moment)
	}
	return cmp.Compare(s.number, other.number)
}

// Bound is one end of a range.
type Bound struct {
	Scalar
	upper, included bool
}

// NewBound returns the bound of an operator: gte, gt, lte or lt. A day is a bound as a whole: what is lte a day is
// before the next one.
func NewBound(operator string, at Scalar) Bound {
	bound := Bound{Scalar: at, upper: operator[0] == 'l', included: len(operator) > len("gt")}
	if at.isDay && bound.upper == bound.included {
		bound.moment, bound.included = at.moment.AddDate(0, 0, 1), !bound.included
	}
	return bound
}

// allows reports whether a value of the same kind is within the bound.
func (b Bound) allows(value Scalar) bool {
	order := value.compare(b.Scalar)
	if b.upper {
		order = -order
	}
	return order > 0 || order == 0 && b.included
}

// CheckBounds returns why no value can be within all bounds, as an error; nil: one can.
func CheckBounds(bounds []Bound) error {
	for _, low := range bounds {
		for _, high := range bounds {
			switch {
			case low.isTime != high.isTime:
				return errors.New("one bound is a number and the other a date")
			case !low.upper && high.upper && (!low.allows(high.Scalar) || !high.allows(low.Scalar)):
				return errors.New("no value is within these bounds")
			}
		}
	}
	return nil
}

// documentFields are what a filter looks at of one document.
type documentFields struct {
	key      string
	meta     map[string]string
	modified time.Time
	scalars  map[string][]Scalar // of the fields that were compared: each is read once, however many bounds it meets
}

// compareWith returns the elements of a field that are of a bound's kind.
func (d *documentFields) compareWith(field string) []Scalar {
	scalars, known := d.scalars[field]
	if known {
		return scalars
	}
	if text, has := d.meta[field]; has {
		for element := range strings.SplitSeq(text, listComma) {
			if value, ok := ParseScalar(element); ok {
				scalars = append(scalars, value)
			}
		}
	}
	if d.scalars == nil {
		d.scalars = map[string][]Scalar{}
	}
	d.scalars[field] = scalars
	return scalars
}

// allows reports whether a document meets the condition. A field that is not there meets only not and exists: false.
func (c *Condition) allows(document *documentFields) bool {
	text, has := document.meta[c.Field]
	if c.Exists != nil && *c.Exists != has ||
		c.In != nil && !c.In.matchText(text) || c.Not != nil && c.Not.matchText(text) {
		return false
	}
	return len(c.Bounds) == 0 || slices.ContainsFunc(document.compareWith(c.Field), func(value Scalar) bool {
		return value.isTime == c.Bounds[0].isTime &&
			!slices.ContainsFunc(c.Bounds, func(bound Bound) bool { return !bound.allows(value) })
	})
}

// isOther reports whether a document has the field, but no value that the bounds can be compared with.
func (c *Condition) isOther(document *documentFields) bool {
	_, has := document.meta[c.Field]
	return has && len(c.Bounds) > 0 && !slices.ContainsFunc(document.compareWith(c.Field), func(value Scalar) bool {
		return value.isTime == c.Bounds[0].isTime
	})
}
