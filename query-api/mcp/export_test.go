package mcp

// For tests of the package from outside.
var (
	Shortened  = shortened
	MostTokens = mostTokens
)
