package retrieve

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
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
	known map[string]bool
	span  int // elements of a list that the longest takes
}

// NewValues returns values that are looked up at once, however many there are.
func NewValues(list []string) *Values {
	out := &Values{known: make(map[string]bool, len(list))}
	for _, text := range list {
		out.known[text] = true
		out.span = max(out.span, 1+strings.Count(text, listComma))
	}
	return out
}

const listComma = ", "

// matchText reports whether a text, or elements of it that follow each other, is one of the values.
func (v *Values) matchText(text string) bool {
	for more := true; more; _, text, more = strings.Cut(text, listComma) {
		end := 0
		for range v.span {
			comma := strings.Index(text[end:], listComma)
			if comma < 0 {
				if v.known[text] {
					return true
				}
				break
			}
			if end += comma; v.known[text[:end]] {
				return true
			}
			end += len(listComma)
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
	if strings.Trim(text, "+-.0123456789eE") == "" { // neither Inf nor 0x10
		number, err := strconv.ParseFloat(text, 64)
		if err == nil {
			return Scalar{number: number}, true
		}
	}
	layout := time.RFC3339
	if out.isDay = len(text) == len(time.DateOnly); out.isDay {
		layout = time.DateOnly
	} else if len(text) < len("2006-01-02T15:04:05Z") || text[4] != '-' {
		return out, false
	}
	moment, err := time.Parse(layout, text)
	out.moment, out.isTime = moment, true
	return out, err == nil
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
				return fmt.Errorf("one bound is a number and the other a date")
			case !low.upper && high.upper && low.compare(high.Scalar) >= 0 && !(low.allows(high.Scalar) && high.allows(low.Scalar)):
				return fmt.Errorf("no value is within these bounds")
			}
		}
	}
	return nil
}

// isWithin reports whether an element of a text is within all bounds; comparable: whether one could be.
func (c *Condition) isWithin(text string) (within, comparable bool) {
	for element := range strings.SplitSeq(text, listComma) {
		value, ok := ParseScalar(element)
		if !ok || value.isTime != c.Bounds[0].isTime {
			continue
		}
		comparable, within = true, true
		for _, bound := range c.Bounds {
			within = within && bound.allows(value)
		}
		if within {
			return true, true
		}
	}
	return false, comparable
}

// allows reports whether metadata meet the condition. A field that is not there meets only not and exists: false.
func (c *Condition) allows(meta map[string]string) bool {
	text, has := meta[c.Field]
	if c.Exists != nil && *c.Exists != has ||
		c.In != nil && !(has && c.In.matchText(text)) ||
		c.Not != nil && has && c.Not.matchText(text) {
		return false
	}
	if len(c.Bounds) == 0 {
		return true
	}
	within := false
	if has {
		within, _ = c.isWithin(text)
	}
	return within
}
