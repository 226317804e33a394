package classrun

// SetLimit sets how many rows there may be; a run of 2^31 is for no test.
func (w *Writer) SetLimit(rows uint64) { w.limit = rows }

// SpillAt lets names be sorted in so few bytes.
func (w *Writer) SpillAt(bytes int) { w.byName.Run = bytes }
