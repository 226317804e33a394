package document

// DelimiterOf returns the delimiter that is found for the rows of a CSV.
func DelimiterOf(content string) rune {
	found, _ := sniffDialect([]byte(content), "f", DefaultLimits())
	return rune(found.comma)
}
