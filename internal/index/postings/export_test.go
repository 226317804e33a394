package postings

// SpillAt sets how many bytes are gathered in memory before they are sorted, and then written out; 16 MiB unless it
// is called.
func (b *Builder) SpillAt(bytes int) { b.limit, b.runs.Run = bytes, bytes }

// Has reports whether a document holds the term.
func (s *Side) Has(term string) bool {
	_, held := s.Find(term)
	return held
}
