package document

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/fault"
)

// ErrMixed is given by Rows for a .json list that holds more than objects, and for what is no list: it is one document.
var ErrMixed = errors.New("the list contains values that are not objects")

// ListsRecords reports whether a text that begins like this may be a list of JSON objects, each of which is a document,
// and whether it is a list of nothing, or empty.
func ListsRecords(text io.Reader) (records, empty bool) {
	decoder := jsontext.NewDecoder(text, Lenient)
	if kind := decoder.PeekKind(); kind != '[' {
		_, err := decoder.ReadToken()
		return false, errors.Is(err, io.EOF)
	}
	_, _ = decoder.ReadToken() // peeked
	kind := decoder.PeekKind()
	return kind == '{', kind == ']'
}

// listRows streams the objects of a JSON list. It holds one at a time.
func listRows(reader io.Reader, object string, limits Limits, f func(Row) error) error {
	source := &bounded{reader: reader, left: limits.Row}
	decoder := jsontext.NewDecoder(source, Lenient)
	if decoder.PeekKind() != '[' {
		return ErrMixed
	}
	_, err := decoder.ReadToken()
	number := 1
	for ; err == nil && decoder.PeekKind() == '{'; number++ {
		where := nameRecord(object, number)
		source.left, source.above = limits.Row, OverMax(where, "row", limits.Row, "it has more bytes")
		var value jsontext.Value
		if value, err = decoder.ReadValue(); err != nil {
			break
		}
		row := Row{Line: number}
		row.parseRecord(value, where, limits)
		if err := f(row); err != nil {
			return err
		}
	}
	switch kind := decoder.PeekKind(); {
	case err != nil:
	case kind == ']':
		_, _ = decoder.ReadToken() // peeked
		if _, err = decoder.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			err = errors.New("there is data after the list")
		}
	case kind != jsontext.KindInvalid:
		return ErrMixed
	default:
		_, err = decoder.ReadToken()
	}
	if known := fault.As(err); known != nil {
		return known
	}
	return syntaxFault(err, nil, nameRecord(object, number), "correct the file, or save it again")
}

func nameRecord(object string, number int) string { return fmt.Sprintf("%s record %d", object, number) }
