package core

import "fmt"

// FormatSize returns a number of bytes for people, in decimal units as the page has it: 5.2 MB, 28 MB.
func FormatSize(bytes int64) string {
	value, unit := float64(bytes), 0
	units := [...]string{"B", "kB", "MB", "GB", "TB"}
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit > 0 && value < 10 {
		return fmt.Sprintf("%.1f %s", value, units[unit])
	}
	return fmt.Sprintf("%.0f %s", value, units[unit])
}
