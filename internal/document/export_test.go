package document

// DialectOf returns the delimiter and the quote that are found for the rows of a CSV.
func DialectOf(content string) (comma, quote rune) {
	found, _ := sniffDialect([]byte(content), "f", DefaultLimits())
	return rune(found.comma), rune(found.quote)
}
