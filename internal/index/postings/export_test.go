package postings

// SpillAt sets how many bytes are gathered in memory before they are written out; 16 MiB unless it is called.
func (b *Builder) SpillAt(bytes int) { b.limit = bytes }
