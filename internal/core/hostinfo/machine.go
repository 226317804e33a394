// Package hostinfo says what this process has of the machine it runs on.
package hostinfo

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// unknown is believed of a machine that does not tell how much memory it has.
const unknown = 4 << 30

// Memory is how many bytes of memory this process may use: those of its container where one is bounded, else the
// machine's.
func Memory() int64 { return memory("/") }

// memory is Memory where the files of the system lie below root.
func memory(root string) int64 {
	least := int64(0)
	for _, found := range []int64{
		number(filepath.Join(root, "sys/fs/cgroup/memory.max")),
		number(filepath.Join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes")),
		total(filepath.Join(root, "proc/meminfo")),
		installed(),
	} {
		if found > 0 && (least == 0 || found < least) {
			least = found
		}
	}
	if least == 0 {
		return unknown
	}
	return least
}

// number in a file; 0 where there is none, as where the bound is "max".
func number(path string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// total is MemTotal of a file like /proc/meminfo, in bytes.
func total(path string) int64 {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return n << 10
		}
	}
	return 0
}
