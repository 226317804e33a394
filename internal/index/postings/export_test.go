package postings

// SpillAt sets how many bytes are gathered in memory before they are written out.
func (b *Builder) SpillAt(bytes int) { b.limit, b.runs.Run = bytes, bytes }
