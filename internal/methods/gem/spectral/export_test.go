package spectral

import "io"

// Forge writes content of which nobody asked whether it fits.
func (c Content) Forge(writer io.Writer) error { return c.write(writer) }
