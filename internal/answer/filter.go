package answer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// Filter narrows a query to documents.
type Filter struct {
	DocumentPrefix *string              `json:"document_prefix" doc:"first characters of the key"`
	Metadata       map[string]Condition `json:"metadata" doc:"what a field must be: values, or operators"`
	Modified       Modified             `json:"modified" doc:"time of modification"`
	Or             []Filter             `json:"or" doc:"one of these filters must be met, beside all else; 3 levels"`
}

// Modified is a range of times: from is included, to is not.
type Modified struct {
	From *Moment `json:"from" doc:"included: 2026-01-31T12:00:00Z, or 2026-01-31 for its beginning, UTC"`
	To   *Moment `json:"to" doc:"excluded: 2026-02-01 includes all of 31 January"`
}

// Limits of a filter.
const (
	maxOr         = 3 // filters in one another
	maxConditions = 100
	maxValues     = 10_000
)

// Condition is what a field of metadata must be: a text, a list of texts one of which it is, or an object of operators.
type Condition struct {
	retrieve.Condition
	values int
}

// operators of a condition read what stands behind their name.
var operators = map[string]func(*Condition, string, jsontext.Value) error{
	"in": func(c *Condition, _ string, raw jsontext.Value) (err error) {
		c.In, err = c.readValues(raw)
		return err
	},
	"not":    (*Condition).readNot,
	"exists": (*Condition).readExists,
	"gte":    (*Condition).readBound,
	"gt":     (*Condition).readBound,
	"lte":    (*Condition).readBound,
	"lt":     (*Condition).readBound,
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Condition) UnmarshalJSON(raw []byte) (err error) {
	c.Words = string(raw)
	if jsontext.Value(raw).Kind() != '{' {
		c.In, err = c.readValues(raw)
		return err
	}
	var given map[string]jsontext.Value
	if err = json.Unmarshal(raw, &given); err != nil {
		return errors.New("an operator is given twice")
	}
	known := strings.Join(slices.Sorted(maps.Keys(operators)), ", ")
	if len(given) == 0 { // an unset variable must not turn a filter off
		return errors.New("an operator is missing; known: " + known)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		read := operators[name]
		if read == nil {
			return fmt.Errorf("unknown operator %.80q; known: %s", name, known)
		}
		if err = read(c, name, given[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return retrieve.CheckBounds(c.Bounds)
}

// readValues reads a text, or a list of texts.
func (c *Condition) readValues(raw jsontext.Value) (*retrieve.Values, error) {
	kind := raw.Kind()
	if kind != '"' && kind != '[' {
		return nil, errors.New("want a string or a list of strings, got " + KindName(kind))
	}
	var list []*string
	if kind == '"' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	if json.Unmarshal(raw, &list) != nil || slices.Contains(list, nil) {
		return nil, errors.New("want a string or a list of strings")
	}
	var texts []string
	for _, text := range list {
		if *text == "" { // no document has it, and an unset variable must not turn a filter off
			return nil, errors.New("a value is empty: give one, or leave the field out")
		}
		texts = append(texts, *text)
	}
	c.values += len(texts)
	return retrieve.NewValues(texts), nil
}

func (c *Condition) readNot(_ string, raw jsontext.Value) (err error) {
	before := c.values
	if c.Not, err = c.readValues(raw); err == nil && c.values == before {
		err = errors.New("the list is empty: give a value, or leave the operator out")
	}
	return err
}

func (c *Condition) readExists(_ string, raw jsontext.Value) error {
	kind := raw.Kind()
	if kind != 't' && kind != 'f' {
		return errors.New("want true or false, got " + KindName(kind))
	}
	exists := kind == 't'
	c.Exists = &exists
	return nil
}

// readBound reads a number, or a text that is a number or a date.
func (c *Condition) readBound(operator string, raw jsontext.Value) error {
	text := string(raw)
	switch kind := raw.Kind(); kind {
	case '"':
		unquoted, _ := jsontext.AppendUnquote(nil, raw) // the decoder has checked it
		text = string(unquoted)
	case '0':
	default:
		return errors.New("want a number or a date, got " + KindName(kind))
	}
	at, ok := retrieve.ParseScalar(text)
	if !ok {
		return fmt.Errorf("%.80q is neither a number nor a date (use 2020, 2026-01-31 or 2026-01-31T12:00:00Z)", text)
	}
	c.Bounds = append(c.Bounds, retrieve.NewBound(operator, at))
	return nil
}

// Moment is a time, or a day for its beginning in UTC.
type Moment struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(raw []byte) (err error) {
	var text string
	if kind := jsontext.Value(raw).Kind(); kind != '"' {
		return errors.New("want a time, got " + KindName(kind))
	}
	if err = json.Unmarshal(raw, &text); err != nil {
		return err
	}
	if m.Time, err = time.Parse(time.DateOnly, text); err != nil {
		err = m.UnmarshalText([]byte(text))
	}
	if err != nil || m.IsZero() { // the beginning of year 1 stands for no time
		return fmt.Errorf("%.80q is not a time (use 2026-01-31T12:00:00Z or 2026-01-31)", text)
	}
	return nil
}

// filterReader counts what a filter takes.
type filterReader struct{ conditions, values int }

// readFilter checks a filter that stands at a place of the body, with so many filters around it.
func (r *filterReader) readFilter(given Filter, at string, depth int) (out retrieve.Filter, err error) {
	if depth > maxOr {
		why := fmt.Sprintf("filters are nested more than %d levels", maxOr)
		return out, newFault("read query", at, why, "write it flatter")
	}
	if given.DocumentPrefix != nil {
		out.Prefix = *given.DocumentPrefix
	}
	for _, field := range slices.Sorted(maps.Keys(given.Metadata)) {
		condition := given.Metadata[field]
		condition.Field = field
		out.Metadata = append(out.Metadata, condition.Condition)
		r.values += condition.values
	}
	if from := given.Modified.From; from != nil {
		out.From = from.Time
	}
	if to := given.Modified.To; to != nil {
		out.To = to.Time
		if !out.From.Before(to.Time) && given.Modified.From != nil {
			why := "from is not before to, so no document can match"
			return out, newFault("read query", at+".modified", why, "swap the two")
		}
	}
	r.conditions += 1 + len(given.Metadata)
	for _, count := range []struct {
		have, most int
		what       string
	}{{r.conditions, maxConditions, "conditions"}, {r.values, maxValues, "values"}} {
		if count.have > count.most {
			why := fmt.Sprintf("the filter has more than %d %s", count.most, count.what)
			return out, newFault("read query", at, why, "give the documents a field that covers them")
		}
	}
	if given.Or != nil && len(given.Or) == 0 { // an unset variable must not turn a filter off
		return out, newFault("read query", at+".or", "the list is empty", "give a filter, or leave the field out")
	}
	for i, one := range given.Or {
		place := fmt.Sprintf("%s.or.%d", at, i)
		read, err := r.readFilter(one, place, depth+1)
		if err != nil {
			return out, err
		}
		if read.IsEmpty() {
			return out, newFault("read query", place, "the filter has no condition", "give one, or leave it out")
		}
		out.Any = append(out.Any, read)
	}
	return out, nil
}
