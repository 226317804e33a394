// Package mappedtest forges mapped files for tests: other content whose checksums are right.
package mappedtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"math/rand/v2"
)

const trailer = 24

type section struct {
	Name   string   `json:"name"`
	Offset int64    `json:"offset"`
	Size   int64    `json:"size"`
	CRC    []uint32 `json:"crc"`
}

type table struct {
	Kind     string            `json:"kind"`
	Version  int               `json:"version"`
	Meta     map[string]string `json:"meta,omitempty"`
	Sections []section         `json:"sections"`
}

// Forge changes a whole file at a few places and makes its checksums fit again: the content of sections, the length of
// one, or, one time in eight, where a section lies and how long it claims to be.
func Forge(whole []byte, random *rand.Rand) []byte {
	at := binary.LittleEndian.Uint64(whole[len(whole)-trailer:])
	var head table
	if err := json.Unmarshal(whole[at:len(whole)-trailer], &head); err != nil {
		panic(err) // the file is whole
	}
	contents := make([][]byte, len(head.Sections))
	for i, s := range head.Sections {
		contents[i] = bytes.Clone(whole[s.Offset : s.Offset+s.Size])
	}
	for range 1 + random.IntN(3) {
		i := random.IntN(len(contents))
		contents[i] = Change(contents[i], random)
	}
	out := bytes.Clone(whole[:8])
	for i := range head.Sections {
		out = append(out, make([]byte, (64-len(out)%64)%64)...)
		head.Sections[i].Offset, head.Sections[i].Size = int64(len(out)), int64(len(contents[i]))
		out = append(out, contents[i]...)
	}
	if random.IntN(8) == 0 {
		s := &head.Sections[random.IntN(len(head.Sections))]
		switch place := int64(number(random, len(out))) &^ 63; random.IntN(3) {
		case 0:
			s.Offset = place
		case 1:
			s.Size = int64(number(random, len(out)))
		default:
			s.Offset, s.Size = place, int64(number(random, len(out)))
		}
	}
	for i := range head.Sections {
		head.Sections[i].CRC = sums(out, head.Sections[i])
	}
	return finish(out, head)
}

// sums are the checksums of a section as far as it lies within the file.
func sums(content []byte, s section) []uint32 {
	out := []uint32{}
	if s.Size <= 0 || s.Size > 1<<40 || s.Offset < 0 {
		return out
	}
	const block = 1 << 20
	for from := s.Offset; from < s.Offset+s.Size && from < int64(len(content)); from += block {
		to := min(from+block, s.Offset+s.Size, int64(len(content)))
		out = append(out, crc32.Checksum(content[from:to], crc32.MakeTable(crc32.Castagnoli)))
	}
	return out
}

func finish(content []byte, head table) []byte {
	raw, err := json.Marshal(head)
	if err != nil {
		panic(err) // numbers and names alone
	}
	at := len(content)
	content = append(content, raw...)
	content = binary.LittleEndian.AppendUint64(content, uint64(at))
	content = binary.LittleEndian.AppendUint32(content, uint32(len(raw)))
	content = binary.LittleEndian.AppendUint32(content, crc32.Checksum(raw, crc32.MakeTable(crc32.Castagnoli)))
	return append(content, "UWSECEND"...)
}

// Change changes bytes as an attacker would: numbers that are near limits, records that change places, other lengths.
func Change(content []byte, random *rand.Rand) []byte {
	if len(content) == 0 {
		return make([]byte, random.IntN(64))
	}
	at := random.IntN(len(content))
	switch random.IntN(8) {
	case 0:
		content[at] ^= 1 << random.IntN(8)
	case 1:
		content[at] = byte(random.IntN(256))
	case 2, 3:
		if at &^= 3; at+4 <= len(content) {
			binary.LittleEndian.PutUint32(content[at:], uint32(number(random, len(content))))
		}
	case 4:
		if at &^= 7; at+8 <= len(content) {
			binary.LittleEndian.PutUint64(content[at:], number(random, len(content)))
		}
	case 5:
		return content[:at]
	case 6:
		return append(content, make([]byte, 1+random.IntN(64))...)
	default:
		if other := random.IntN(len(content)) &^ 7; at&^7+8 <= len(content) && other+8 <= len(content) {
			at &^= 7
			var kept [8]byte
			copy(kept[:], content[at:at+8])
			copy(content[at:at+8], content[other:other+8])
			copy(content[other:other+8], kept[:])
		}
	}
	return content
}

// number is one that tempts a reader: small, about as large as the content, or at the end of its type.
func number(random *rand.Rand, size int) uint64 {
	switch random.IntN(6) {
	case 0:
		return uint64(random.IntN(16))
	case 1:
		return uint64(random.IntN(2*size + 1))
	case 2:
		return uint64(size)
	case 3:
		return math.MaxUint32 - uint64(random.IntN(2))
	case 4:
		return math.MaxInt64 - uint64(random.IntN(64))
	}
	return math.MaxUint64 - uint64(random.IntN(64))
}
