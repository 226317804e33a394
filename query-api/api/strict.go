package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// Count is a whole number as JSON Schema has it: 5, 5.0 and 5e0 are one.
type Count int

// UnmarshalJSON implements json.Unmarshaler; strictly has seen the number.
func (c *Count) UnmarshalJSON(raw []byte) error {
	n, ok := wholeOf(string(raw))
	if ok {
		*c = Count(n)
	}
	return nil
}

// largest whole number that every JSON reader has exactly.
const largest = 1 << 53

func wholeOf(text string) (int, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int64(f)) || f > largest || f < -largest {
		return 0, false
	}
	return int(f), true
}

// maxNesting of a body; what a query means needs four.
const maxNesting = 32

// strictly checks what encoding/json lets pass: keys that stand twice, that differ in case, and unknown ones. What is
// no JSON at all is left to the decoder.
func strictly(raw string, t reflect.Type) error {
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	if err := strictValue(decoder, place{t: t, full: true}); !errors.Is(err, errBroken) {
		return err
	}
	return nil
}

// errBroken ends the look at what is no JSON; a value that cannot be read must never be asked for again.
var errBroken = errors.New("no JSON")

// place of a value in a body.
type place struct {
	t     reflect.Type // nil: anything may stand there
	at    string       // the path of keys to it
	depth int
	full  bool // null is no value there: among the items of a list, in a map, and in what is required
}

func strictValue(decoder *json.Decoder, of place) error {
	token, err := decoder.Token()
	if err != nil {
		return errBroken
	}
	t := of.t
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	of.t = t
	if of.depth > maxNesting {
		return fault.Usage.At("read body", "").Because(fmt.Sprintf("it is nested deeper than %d", maxNesting))
	}
	switch token := token.(type) {
	case nil:
		if t != nil && of.full {
			return invalid("read query", of.at, "want a value, got null", "")
		}
	case json.Number:
		if t == reflect.TypeFor[Count]() {
			if _, ok := wholeOf(token.String()); !ok {
				return invalid("read query", of.at, "want int, got number "+token.String(), "")
			}
		}
	case string, bool:
		if of.at == "method" && token == "" { // null is as good as nothing; an empty name is a mistake
			return invalid("read query", of.at, "it is empty", "leave it out, or give null, for the index's own")
		}
		if text, ok := token.(string); ok && t == reflect.TypeFor[time.Time]() {
			if _, err := time.Parse(time.RFC3339, text); err != nil {
				return invalid("read query", of.at, fmt.Sprintf("%.80q is no time", text), "write 2026-01-31T12:00:00Z")
			}
		}
		if t == reflect.TypeFor[Count]() {
			return invalid("read query", of.at, fmt.Sprintf("want int, got %T", token), "")
		}
	case json.Delim:
		if token == '{' {
			return strictObject(decoder, of)
		}
		if t == reflect.TypeFor[Count]() {
			return invalid("read query", of.at, "want int, got array", "")
		}
		return strictItems(decoder, of)
	}
	return nil
}

func strictItems(decoder *json.Decoder, list place) error {
	item := place{at: list.at, depth: list.depth + 1, full: true}
	if list.t != nil && list.t.Kind() == reflect.Slice {
		item.t = list.t.Elem()
	}
	for decoder.More() {
		if err := strictValue(decoder, item); err != nil {
			return err
		}
	}
	_, _ = decoder.Token() // the end; where there is none the decoder tells
	return nil
}

func strictObject(decoder *json.Decoder, of place) error {
	if of.t == reflect.TypeFor[Count]() {
		return invalid("read query", of.at, "want int, got object", "")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return errBroken
		}
		below, known := belowOf(of.t, key)
		below.at, below.depth = key, of.depth+1
		if of.at != "" {
			below.at = of.at + "." + key
		}
		if seen[key] {
			return invalid("read query", below.at, "it stands twice", "")
		}
		seen[key] = true
		if !known {
			return invalid("read query", below.at, "unknown field", "known: "+strings.Join(keysOf(of.t), ", "))
		}
		if err := strictValue(decoder, below); err != nil {
			return err
		}
	}
	_, _ = decoder.Token()
	return nil
}

// belowOf tells what may lie under a key; false where nothing does.
func belowOf(t reflect.Type, key string) (place, bool) {
	if t == nil {
		return place{}, true
	}
	switch t.Kind() {
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return place{}, true
		}
		return place{t: t.Elem(), full: true}, true
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(t) {
			if field.Tag.Get("json") == key {
				return place{t: field.Type, full: field.Tag.Get("required") != ""}, true
			}
		}
		return place{}, false
	}
	return place{}, true // of another kind than it should be: the decoder tells
}

// keysOf are the fields of a body, for people who misspelt one.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, field := range reflect.VisibleFields(t) {
		keys = append(keys, field.Tag.Get("json"))
	}
	return keys
}

// checked lets through to a route who may use it and what it takes.
func (s *Server) checked(route route) http.HandlerFunc {
	known := map[string]bool{}
	for _, parameter := range route.query {
		known[parameter.name] = true
	}
	return func(w http.ResponseWriter, request *http.Request) {
		caller := middleware.Of(request.Context())
		err := caller.Need(route.scope)
		if middleware.Open(request) {
			err = nil
		}
		index := request.PathValue("index")
		switch {
		case err != nil:
		case index != "" && !caller.May(index):
			err = unknownIndex(index) // as if it were not there: names do not leak
		default:
			err = parametersOf(request.URL.RawQuery, known)
		}
		if err == nil && route.body != nil {
			err = middleware.NeedJSON(request)
		}
		if err != nil {
			s.fail(w, request, err)
			return
		}
		route.handler(w, request)
	}
}

// parametersOf checks a query string: each parameter is known and stands once.
func parametersOf(raw string, known map[string]bool) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return fault.Usage.At("read request", "the query string").Because("it is not well formed")
	}
	for name, list := range values {
		switch {
		case !known[name]:
			return invalid("read request", name, "unknown parameter", "")
		case len(list) > 1:
			return invalid("read request", name, "it stands twice", "")
		}
	}
	return nil
}

var digits = regexp.MustCompile(`^(0|[1-9][0-9]{0,15})$`)

// number reads a parameter that is a whole number; one that is not there is otherwise.
func number(values url.Values, name string, lo, hi, otherwise int) (int, error) {
	if !values.Has(name) {
		return otherwise, nil
	}
	text := values.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || !digits.MatchString(text) || n < lo || n > hi {
		return 0, invalid("read request", name, fmt.Sprintf("want a whole number from %d to %d, got %q", lo, hi, text), "")
	}
	return n, nil
}
