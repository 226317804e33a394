package split

// SetLimit sets how many rows there may be; a split of 2^31 is for no test.
func (w *Writer) SetLimit(rows uint64) { w.limit = rows }
