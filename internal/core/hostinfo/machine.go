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

// Memory returns how many bytes of memory this process may use: those of its container where one is bounded, else the
// machine's.
func Memory() int64 { return findMemory("/") }

// findMemory returns what Memory does, where the files of the system lie below root.
func findMemory(root string) int64 {
	least := int64(0)
	for _, found := range []int64{
		readNumber(filepath.Join(root, "sys/fs/cgroup/memory.max")),
		readNumber(filepath.Join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes")),
		readMemTotal(filepath.Join(root, "proc/meminfo")),
		readInstalled(),
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

// readNumber returns the number in a file; 0 where there is none, as where the bound is "max".
func readNumber(path string) int64 {
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

// readMemTotal returns MemTotal of a file like /proc/meminfo, in bytes.
func readMemTotal(path string) int64 {
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
