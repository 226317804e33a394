package mcp

// For tests of the package from outside.
var (
	Fitting    = fitPassages
	Shortened  = shortenText
	MostTokens = mostTokens
)

// Show returns a passage as tools show it.
func Show(p Passage) string { return p.renderText() }
