package mapped

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/unweaver/unweaver/internal/fault"
)

// maxRemote bounds what ReadSection holds in memory: tables and small sections.
const maxRemote = 16 << 20

// ReadSection reads one small section of a file that is not here: its end, its table and the section. path names it in
// errors, which are those of Open.
func ReadSection(at io.ReaderAt, size int64, path, kind, section string, versions ...int) ([]byte, error) {
	if size < int64(len(head)+24) {
		return nil, damaged(path, "it is too short")
	}
	trailer, err := readAt(at, size-24, 24)
	if err != nil {
		return nil, err
	}
	offset, length := binary.LittleEndian.Uint64(trailer), int64(binary.LittleEndian.Uint32(trailer[8:]))
	if string(trailer[16:]) != tail || offset > uint64(size) || int64(offset)+length+24 != size || length > maxRemote {
		return nil, damaged(path, "it is cut or is no segment")
	}
	raw, err := readAt(at, int64(offset), length)
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(raw, castagnoli) != binary.LittleEndian.Uint32(trailer[12:]) {
		return nil, damaged(path, "checksum of the table")
	}
	var have table
	if err := json.Unmarshal(raw, &have); err != nil {
		return nil, damaged(path, err.Error())
	}
	if have.Kind != kind {
		return nil, damaged(path, fmt.Sprintf("it is of kind %s, not %s", have.Kind, kind))
	}
	if !slices.Contains(versions, have.Version) {
		return nil, otherVersion(path, have, versions)
	}
	for _, entry := range have.Sections {
		if entry.Name != section {
			continue
		}
		if entry.Offset < 0 || entry.Size < 0 || entry.Size > maxRemote || entry.Offset > int64(offset)-entry.Size ||
			len(entry.CRC) != int((entry.Size+block-1)/block) {
			return nil, damaged(path, "section "+section+" lies outside")
		}
		content, err := readAt(at, entry.Offset, entry.Size)
		if err != nil {
			return nil, err
		}
		for i, sum := range entry.CRC {
			part := content[i*block : min(len(content), (i+1)*block)]
			if crc32.Checksum(part, castagnoli) != sum {
				return nil, damaged(path, fmt.Sprintf("checksum of section %s block %d", section, i))
			}
		}
		return content, nil
	}
	return nil, fault.SegmentDamage.At("read segment", path).Because("it has no section " + section)
}

// Sections names the sections in their order.
func (x *File) Sections() []string {
	var names []string
	for _, entry := range x.t.Sections {
		names = append(names, entry.Name)
	}
	return names
}

func readAt(at io.ReaderAt, offset, length int64) ([]byte, error) {
	raw := make([]byte, length)
	n, err := at.ReadAt(raw, offset)
	if int64(n) == length {
		return raw, nil
	}
	if err == nil || err == io.EOF { //nolint:errorlint // io.ReaderAt gives it bare
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}
