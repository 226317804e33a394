package ledger

import (
	"encoding/binary"

	"github.com/unweaver/unweaver/internal/core"
)

// The filter has 10 bits to a key and 7 probes: one look-up in a hundred reads a frame for nothing.
const (
	bloomBits   = 10
	bloomProbes = 7
)

// bloomOf makes a filter of so many bits to a key; it is read by its length.
func bloomOf(keys []core.Digest, bits int) []byte {
	raw := make([]byte, (len(keys)*bits+7)/8+1)
	for _, key := range keys {
		for probe := range bloomProbes {
			i := bloomAt(key, probe, len(raw))
			raw[i/8] |= 1 << (i % 8)
		}
	}
	return raw
}

func bloomHas(raw []byte, key core.Digest) bool {
	if len(raw) == 0 {
		return true
	}
	for probe := range bloomProbes {
		if i := bloomAt(key, probe, len(raw)); raw[i/8]&(1<<(i%8)) == 0 {
			return false
		}
	}
	return true
}

// bloomAt takes probes from the digest itself: it is uniform already.
func bloomAt(key core.Digest, probe, size int) int {
	return int(uint64(binary.LittleEndian.Uint32(key[4*probe:])) % uint64(8*size))
}
