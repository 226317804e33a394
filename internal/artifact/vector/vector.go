// Package vector writes vectors into JSON.
package vector

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// JSON is a vector that is written to JSON as base64 of its little-endian numbers, four bytes each.
type JSON []float32

// MarshalJSON implements json.Marshaler.
func (v JSON) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements json.Unmarshaler; bytes that are no numbers are SegmentDamage.
func (v *JSON) UnmarshalJSON(text []byte) error {
	var coded string
	if err := json.Unmarshal(text, &coded); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return err
	}
	if len(raw)%4 != 0 {
		return fault.SegmentDamage.At("read vector", "of "+strconv.Itoa(len(raw))+" bytes")
	}
	*v = make(JSON, len(raw)/4)
	for i := range *v {
		(*v)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}
