package files

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/stream/durable"
)

// A part is never changed: the rows of it that were deleted are listed in a file beside it, until they are so many that
// the part is written again without them.

const (
	deadMagic = "UWDEAD1\x00"
	deadEnd   = ".dead"
	partEnd   = ".part"
)

// rewriteShare is the share of dead rows, 1/rewriteShare, from which a part is written again: a sweep that deletes a
// million rows in a thousand batches writes each part a few times, not a thousand.
const rewriteShare = 4

// bits is a set of rows; nil is empty.
type bits []uint64

func (b bits) hasBit(i int) bool { return b != nil && b[i/64]&(1<<(i%64)) != 0 }

// killRow marks a row.
func (p *part) killRow(i int) {
	if p.dead.hasBit(i) {
		return
	}
	if p.dead == nil {
		p.dead = make(bits, (p.n+63)/64)
	}
	p.dead[i/64] |= 1 << (i % 64)
	p.gone++
}

func (p *part) countLive() int { return p.n - p.gone }

func (p *part) deadPath() string { return strings.TrimSuffix(p.path, partEnd) + deadEnd }

// saveDead writes the list of dead rows durably.
func (p *part) saveDead() error {
	raw := []byte(deadMagic)
	for i := range p.n {
		if p.dead.hasBit(i) {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(i))
		}
	}
	raw = binary.LittleEndian.AppendUint32(raw, crc32.Checksum(raw, castagnoli))
	err := writeFile(p.deadPath(), raw)
	if err == nil {
		p.saved = p.gone
	}
	return err
}

// loadDead reads the list of dead rows, where there is one.
func (p *part) loadDead() error {
	raw, err := os.ReadFile(p.deadPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return wrapError("read", p.deadPath(), err)
	}
	end := len(raw) - 4
	if end < len(deadMagic) || (end-len(deadMagic))%4 != 0 || string(raw[:len(deadMagic)]) != deadMagic ||
		crc32.Checksum(raw[:end], castagnoli) != binary.LittleEndian.Uint32(raw[end:]) {
		return newDamageFault(p.deadPath(), "it is no list of deleted rows, or its checksum differs")
	}
	for at := len(deadMagic); at < end; at += 4 {
		row := int(binary.LittleEndian.Uint32(raw[at:]))
		if row >= p.n {
			return newDamageFault(p.deadPath(), "it lists rows that the part does not have")
		}
		p.killRow(row)
	}
	p.saved = p.gone
	return nil
}

// removePart takes a part from the disk: its list of dead rows last, which must not be missed while the part is there,
// also where power is lost between the two.
func (p *part) removePart() error {
	err := errors.Join(os.Remove(p.path), p.close())
	if err == nil && p.gone > 0 {
		err = durable.SyncFolder(filepath.Dir(p.path))
	}
	if err != nil {
		return err
	}
	for _, path := range []string{p.deadPath(), p.indexPath(columnsEnd), p.indexPath(indexEnd)} {
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// parseNumber returns the number in the name of a part, or of what lies beside it.
func parseNumber(name string) (int, bool) {
	for _, end := range []string{partEnd, deadEnd, indexEnd, columnsEnd} {
		if base, ok := strings.CutSuffix(name, end); ok {
			n, err := strconv.Atoi(base)
			return n, err == nil
		}
	}
	return 0, false
}

// writeFile writes a small file so that a crash leaves the old one or the new one.
func writeFile(path string, raw []byte) error {
	return wrapError("write", path, durable.WriteFile(path, raw, durable.PrivateFile))
}
