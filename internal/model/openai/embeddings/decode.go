// Package embeddings reads answers of POST /embeddings in one pass: no tree, no copy of the text, all vectors in one
// block. It takes what encoding/json would take of the same answer, but for data that come twice; and a null within a
// vector, which encoding/json passes over, is what it stands for: NaN.
package embeddings

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Problem is what is wrong with an answer that is JSON of the right form: a contract that is broken, and no page of a
// proxy. Any other error of Decode is about the form.
type Problem string

// Error implements error.
func (p Problem) Error() string { return string(p) }

// Answer of a server. Vectors are in the order of the texts, whatever order they came in; they share one block.
type Answer struct {
	Vectors [][]float32
	Usage   json.RawMessage // a part of the body; nil where the server tells none
}

// Decode reads an answer for so many texts; each vector is base64 of little-endian float32, or an array of numbers.
// dimension is the expected one, 0 where it is not known: it is not checked, nor are NaN, infinity and length zero.
// Usage is given beside a Problem too.
func Decode(body []byte, texts, dimension int) (Answer, error) {
	d := &decoder{scanner: scanner{text: body}, texts: texts, dimension: dimension}
	if err := d.answer(); err != nil {
		return Answer{}, err
	}
	answer := Answer{Usage: d.usage}
	if d.items != texts {
		return answer, Problem(fmt.Sprintf("%d vectors came back for %d texts", d.items, texts))
	}
	if d.problem != "" {
		return answer, d.problem
	}
	answer.Vectors = make([][]float32, texts)
	for i, span := range d.spans {
		if span.text < 0 || span.text >= texts || answer.Vectors[span.text] != nil {
			return Answer{Usage: d.usage},
				Problem(fmt.Sprintf("vector %d: index %d is out of range or comes twice", i, span.text))
		}
		answer.Vectors[span.text] = d.block[span.from:span.to:span.to]
	}
	return answer, nil
}

// span is where a vector lies in the block, and the place of its text.
type span struct{ text, from, to int }

type decoder struct {
	scanner
	texts, dimension int
	items            int
	spans            []span // by arrival, no more than texts
	block            []float32
	usage            json.RawMessage
	seen             bool    // data
	problem          Problem // the first of a vector; form comes before it, and may still be wrong
}

// answer reads the whole text.
func (d *decoder) answer() error {
	var err error
	switch d.next() {
	case '{':
		err = d.object(d.member)
	case 'n':
		err = d.word("null")
	default:
		err = d.wrong("an object")
	}
	if err != nil {
		return err
	}
	if d.next(); d.at < len(d.text) {
		return d.wrong("the end")
	}
	return nil
}

func (d *decoder) member(name string) error {
	switch name {
	case nameData:
		if d.seen {
			return errors.New("data comes twice")
		}
		d.seen = true
		switch d.next() {
		case '[':
			return d.list(']', d.item)
		case 'n':
			return d.word("null")
		}
		return d.wrong("the list of data")
	case nameUsage:
		from := d.at
		err := d.value(1)
		d.usage = d.text[from:d.at]
		return err
	}
	return d.value(1)
}

// item is one embedding with its index; without one it belongs to the text at its own place.
func (d *decoder) item() error {
	place := d.items
	d.items++
	kept := place < d.texts
	found := span{text: place, from: len(d.block), to: -1}
	member := func(name string) (err error) {
		switch {
		case name == nameIndex && d.next() == 'n':
			found.text = place
			return d.word("null")
		case name == nameIndex:
			found.text, err = d.index()
			return err
		case name == nameEmbedding && kept:
			d.block = d.block[:found.from] // of a name that comes twice the last counts
			err = d.vector(place)
			found.to = len(d.block)
			return err
		}
		return d.value(3)
	}
	var err error
	switch d.next() {
	case '{':
		err = d.object(member)
	case 'n':
		err = d.word("null")
	default:
		err = d.wrong("an object of an embedding")
	}
	if err != nil || !kept {
		return err
	}
	if found.to < 0 {
		d.trouble(place, "there is none")
	}
	d.spans = append(d.spans, found)
	return nil
}

func (d *decoder) trouble(place int, why string) {
	if d.problem == "" {
		d.problem = Problem(fmt.Sprintf("vector %d: %s", place, why))
	}
}

func (d *decoder) index() (int, error) {
	number, err := d.number()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(number))
}

// vector appends one to the block. What is no vector is a problem, and is passed by.
func (d *decoder) vector(place int) error {
	from := d.at
	var err error
	switch d.next() {
	case '"':
		err = d.packed()
	case '[':
		err = d.numbers()
	case 'n':
		err = Problem("there is none")
	default:
		err = Problem("it is neither text nor a list of numbers")
	}
	var why Problem
	if !errors.As(err, &why) {
		return err
	}
	d.trouble(place, string(why))
	d.at = from
	return d.value(3)
}

// room makes some for a vector of so many numbers, and for those of the other texts where it is the first. No body
// holds more numbers than half its bytes.
func (d *decoder) room(numbers int) {
	if cap(d.block) == 0 {
		most := len(d.text)/2 + 1
		d.block = make([]float32, 0, min(most, d.texts*max(numbers, d.dimension)))
	}
	d.block = slices.Grow(d.block, numbers)
}

// Base64 is decoded in pieces of a size that both its groups and the numbers divide.
const (
	pieceText  = 4096
	pieceBytes = pieceText / 4 * 3
)

// packed reads base64 of little-endian float32. A string without escapes is not looked at before it is decoded: what
// base64 takes is valid in a string, line ends aside, which make the result too short.
func (d *decoder) packed() error {
	length := bytes.IndexByte(d.text[d.at+1:], '"')
	if length < 0 || bytes.IndexByte(d.text[d.at+1:d.at+1+length], '\\') >= 0 {
		return d.escaped()
	}
	encoded := d.text[d.at+1 : d.at+1+length]
	d.room(length / 4 * 3 / 4)
	var piece [pieceBytes]byte
	for len(encoded) > 0 {
		part := encoded[:min(pieceText, len(encoded))]
		encoded = encoded[len(part):]
		n, err := base64.StdEncoding.Decode(piece[:], part)
		if err != nil {
			return Problem(err.Error())
		}
		if len(encoded) > 0 && n != pieceBytes || len(part)%4 != 0 || n < len(part)/4*3-2 {
			return Problem("base64 that ends before its text does")
		}
		if err := d.add(piece[:n]); err != nil {
			return err
		}
	}
	d.at += length + 2
	return nil
}

// escaped is packed of a string with escapes, such as a slash has of some servers.
func (d *decoder) escaped() error {
	from := d.at
	if _, err := d.string(); err != nil {
		return err
	}
	var encoded string
	if err := json.Unmarshal(d.text[from:d.at], &encoded); err != nil {
		return err
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Problem(err.Error())
	}
	d.room(len(decoded) / 4)
	return d.add(decoded)
}

// add appends numbers to the block, which has room for them.
func (d *decoder) add(decoded []byte) error {
	if len(decoded)%4 != 0 {
		return Problem("base64 of a length that is no multiple of 4")
	}
	at := len(d.block)
	d.block = d.block[:at+len(decoded)/4]
	for i := range d.block[at:] {
		d.block[at+i] = math.Float32frombits(binary.LittleEndian.Uint32(decoded[4*i:]))
	}
	return nil
}

// numbers reads an array of them.
func (d *decoder) numbers() error {
	d.room(d.dimension)
	return d.list(']', func() error {
		switch c := d.next(); {
		case c == 'n':
			d.block = append(d.block, float32(math.NaN()))
			return d.word("null")
		case c != '-' && (c < '0' || c > '9'):
			return Problem("it holds what is no number")
		}
		number, err := d.number()
		if err != nil {
			return err
		}
		parsed, err := strconv.ParseFloat(string(number), 32)
		if err != nil {
			return Problem("it holds a number that is too large")
		}
		d.block = append(d.block, float32(parsed))
		return nil
	})
}
