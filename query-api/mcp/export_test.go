package mcp

// For tests of the package from outside.
var (
	Fitting    = fitting
	Shortened  = shortened
	MostTokens = mostTokens
)

// Show is a passage as tools show it.
func Show(p Passage) string { return p.show() }
